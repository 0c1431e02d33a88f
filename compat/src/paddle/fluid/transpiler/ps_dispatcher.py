"""Which server holds which block."""

from paddle._alias import alias

alias(__name__, {"fleet_programs.transpiler.planning.ps_dispatcher": "HashName PSDispatcher RoundRobin"})
