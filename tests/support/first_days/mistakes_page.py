"""What docs/mistakes.md says, by what was done; `…` stands for what differs."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/mistakes.md"
_SAYS = "| you did | Fleet says |"


def said_by_the_page() -> dict[str, str]:
    """A pattern for what Fleet says, by what was done."""
    found = {}
    is_said = False
    for line in PAGE.read_text().splitlines():
        if not line.startswith("|"):
            is_said = False
        elif line == _SAYS:
            is_said = True
        elif is_said and not line.startswith("|---"):
            did, says = line.strip("| ").split(" | ")
            found[did] = ".*".join(map(re.escape, says.split("…")))
    return found
