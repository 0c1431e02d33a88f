"""ARCHITECTURE.md sends a newcomer to files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def test_the_files_where_to_start_are_there() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.partition("## I want to change")[2], flags=re.MULTILINE)
    named = [path for _, where in rows for path in re.findall(r"`([\w/.]+)`", where) if "/" in path or "." in path]
    assert len(named) > 25
    for path in named:
        homes = (ROOT, ROOT / "src" / "fleet", ROOT / "src" / "fleet" / "static" / "executor")
        assert any((home / path).exists() for home in homes), f"ARCHITECTURE.md names {path}"


def test_the_tree_is_that_of_the_package() -> None:
    tree = PAGE.partition("src/fleet/ ")[2].partition("compat/ ")[0]
    listed = set(re.findall(r"\b(\w+)/", tree)) - {"programs", "training"}
    packages = {one.parent.name for one in (ROOT / "src" / "fleet").glob("*/__init__.py")}
    assert listed == packages
