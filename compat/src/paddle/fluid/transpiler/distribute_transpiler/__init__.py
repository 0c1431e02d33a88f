"""The transpiler and its settings."""

from paddle._alias import alias

alias(__name__, {"fleet.transpiler": "DistributeTranspiler DistributeTranspilerConfig"}, parts="distributed_strategy")
