"""`python -m fleet.checkpoint verify FOLDER`: whether what was saved there is whole; `compact`: fold its increments."""

import sys

from fleet._lazy import tool

if __name__ == "__main__":
    sys.exit(tool("verify_checkpoint")(sys.argv[1:]))
