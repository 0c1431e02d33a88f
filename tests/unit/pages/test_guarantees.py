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
    assert not [path for path in named if not has_test(ROOT / path)]


def test_what_has_no_test_is_found() -> None:
    assert has_test(ROOT / "tests" / "chaos")
    assert has_test(ROOT / "tests" / "fuzz" / "fuzz_journals.py")
    assert not has_test(ROOT / "tests" / "support" / "pages")
    assert not has_test(ROOT / "tests" / "support" / "jobs.py")


def has_test(path: Path) -> bool:
    """Whether a file has tests, one of the tests beside it uses it, or a folder has such a file."""
    if path.is_dir():
        return any(map(has_test, path.rglob("test_*.py")))
    if path.name.startswith("test_"):
        return re.search(r"^ *def test_", path.read_text(), re.MULTILINE) is not None
    imported = re.compile(rf"^(from|import) .*\b{path.stem}\b", re.MULTILINE)
    return any(imported.search(one.read_text()) for one in path.parent.glob("test_*.py"))
