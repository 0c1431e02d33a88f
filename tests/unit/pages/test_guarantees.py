"""Each line of the tables of docs/guarantees.md names the test that shows it, or the results that it is a figure of."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "guarantees.md"
ROW = re.compile(r"^\|(?! *-)(.+)\|$")


def rows() -> list[str]:
    """The rows of all tables, without their heads."""
    lines = PAGE.read_text().splitlines()
    return [
        line
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if ROW.match(line) and not following.startswith("|---")
    ]


def test_every_line_names_what_shows_it() -> None:
    assert len(rows()) > 40
    unshown = [
        row for row in rows() if not re.search(r"`(tests/[\w/]+(\.py)?|make chaos)`|\]\(\.\./benchmarks/results/", row)
    ]
    assert not unshown, f"name the test of each line: {unshown}"


def test_what_is_named_is_there() -> None:
    text = PAGE.read_text()
    named = re.findall(r"`(tests/[\w/.]+)`", text)
    assert len(named) > 40
    assert not [path for path in named if not (ROOT / path).exists()]
    for path in {path for path in named if Path(path).name.startswith("test_")}:
        assert re.search(r"^ *def test_", (ROOT / path).read_text(), re.MULTILINE), f"{path} has no test"
