"""`python -m fleet.ps.journal DIR`, or `fleetrun --verify-journal DIR`: whether what a durable job keeps is whole."""

import sys

from fleet._lazy import tool
from fleet.observe.logs import show_logs

if __name__ == "__main__":
    show_logs()
    sys.exit(tool("verify_journal")(sys.argv[1:]))
