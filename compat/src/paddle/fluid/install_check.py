"""Whether this machine can train."""

from paddle._alias import alias

alias(__name__, renamed={"run_check": "fleet_tools.selfcheck:main"})
