"""docs/errors.md as data: its entries and families; run as a program it writes `error_texts.json` from them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fleet import errors

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "errors.md"


def anchor(heading: str) -> str:
    """What a heading is called in a link, by GitHub and by makers of sites."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections() -> list[str]:
    """The headings of the second level: classes, and what is beside them."""
    return re.findall(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)


def entries() -> list[tuple[str, str, tuple[str, ...]]]:
    """For each entry: the class in whose section it stands, its anchor, and the texts that its block lists."""
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        kind, *parts = re.split(r"^### (.+)$", section, flags=re.MULTILINE)
        for heading, body in zip(parts[::2], parts[1::2], strict=True):
            block = re.search(r"^```text\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL)
            assert block, f"the entry {heading!r} of docs/errors.md lists no text"
            found.append((anchor(kind.partition("\n")[0]), anchor(heading), tuple(block[1].splitlines())))
    return found


def families() -> list[str]:
    """The texts of the table of families, whose errors say themselves what to do."""
    rows = PAGE.read_text().partition("\n## Families")[2].partition("\n## ")[0]
    return [
        text for row in re.findall(r"^\| (`.+?) \|", rows, flags=re.MULTILINE) for text in re.findall("`(.+?)`", row)
    ]


def table() -> str:
    """The text of `src/fleet/error_texts.json`: one entry a line."""
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries()) + "\n]\n"


if __name__ == "__main__":
    errors._TEXTS.write_text(table(), encoding="utf-8")
