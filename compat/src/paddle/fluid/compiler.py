"""Programs with options."""

from paddle._alias import alias

alias(__name__, {"fleet_programs": "BuildStrategy CompiledProgram ExecutionStrategy"})
