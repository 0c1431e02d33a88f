"""Programs with options."""

from paddle._alias import alias

alias(__name__, {"fleet.static": "BuildStrategy CompiledProgram ExecutionStrategy"})
