"""The index of decisions has each of them once, under its own title, with a status that leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "docs" / "adr"
ROW = re.compile(r"\| (\d+) \| \[(.+)\]\((.+)\) \| (.+) \| (.+) \|")
STATUS = re.compile(r"in force|(?:amended|superseded) by (\d+(?:, \d+)*)|amended: withdrawn \d{4}-\d\d-\d\d( \(.+\))?")


def test_every_decision_is_in_the_index_with_its_status() -> None:
    lines = (FOLDER / "README.md").read_text().splitlines()
    rows = [found.groups() for line in lines if (found := ROW.fullmatch(line))]
    there = {page.name: page.read_text().partition("\n")[0] for page in FOLDER.glob("[0-9]*.md")}
    assert {file: f"# {number}. {title}" for number, title, file, _, _ in rows} == there
    assert [int(number) for number, *_ in rows] == list(range(1, len(there) + 1))
    for number, _, file, _, status in rows:
        found = STATUS.fullmatch(status)
        assert found, f"ADR {number}: {status}"
        assert int(file[:4]) == int(number)
        later = [int(one) for one in (found[1] or "").split(", ") if one]
        assert all(int(number) < one <= len(there) for one in later), f"ADR {number}: {status}"
