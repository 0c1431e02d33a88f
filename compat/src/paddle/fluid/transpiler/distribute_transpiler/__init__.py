"""The transpiler and its settings."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.transpiler": "DistributeTranspiler DistributeTranspilerConfig",
        "fleet_paddle.strategies.runtime_config": "ServerRuntimeConfig",
    },
    parts="distributed_strategy",
)
