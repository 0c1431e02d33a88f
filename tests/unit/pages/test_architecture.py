"""ARCHITECTURE.md sends a newcomer to files that are there; docs/internals.md names every file that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FLEET = ROOT / "src" / "fleet"
FILES = (ROOT / "docs" / "internals.md").read_text().partition("## How a batch flows")[0]
FILES_OF_FLEET = FILES.partition("Inside `compat/")[0]

ALIKE = {"ps/modes", "ps/proto", "static/executor/fuse", "static/layers", "static/ops", "transpiler/passes"}
"""Folders that docs/internals.md describes as a whole: one file for each mode, message, pattern, family or pass."""

NO_FILES = {"auto"}
"""Words that the tables of docs/internals.md set as code although they name no file: a setting of the strategy."""


def test_the_files_where_to_start_are_there() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.partition("## I want to change")[2], flags=re.MULTILINE)
    named = [path for _, where in rows for path in re.findall(r"`([\w/.]+)`", where) if "/" in path or "." in path]
    assert len(named) > 25
    for path in named:
        homes = (ROOT, FLEET, FLEET / "static" / "executor")
        assert any((home / path).exists() for home in homes), f"ARCHITECTURE.md names {path}"


def test_the_tree_is_that_of_the_package() -> None:
    tree = PAGE.partition("src/fleet/ ")[2].partition("compat/ ")[0]
    listed = set(re.findall(r"\b(\w+)/", tree)) - {
        "programs",
        "training",
        "reading",
        "formats",
        "places",
        "slotted",
        "synthetic",
    }
    packages = {one.parent.name for one in FLEET.glob("*/__init__.py")}
    assert listed == packages


def sections() -> dict[str, set[str]]:
    """Package -> what docs/internals.md sets as code in the tables below its name."""
    found: dict[str, set[str]] = {}
    for section in FILES_OF_FLEET.split("\nInside ")[1:]:
        heading, _, body = section.partition("\n")
        rows = "\n".join(line for line in body.splitlines() if line.startswith("|"))
        for package in re.findall(r"`(\w+)/`", heading):
            found[package] = set(re.findall(r"`(\w+)/?`", rows))
    return found


@pytest.mark.parametrize("package", sorted(one.parent.name for one in FLEET.glob("*/__init__.py")))
def test_the_page_of_files_names_those_of_each_package(package: str) -> None:
    files = [file.relative_to(FLEET) for file in (FLEET / package).rglob("*.py") if not file.stem.startswith("__")]
    stems = {file.stem for file in files if file.parent.as_posix() not in ALIKE}
    missing = stems - sections().get(package, set())
    assert not missing, f"docs/internals.md does not say what these files of {package}/ are for: {sorted(missing)}"


def test_the_page_of_files_names_those_beside_the_packages() -> None:
    stems = {file.stem for file in FLEET.glob("*.py")} - {"__init__"}
    beside = FILES_OF_FLEET.partition("Beside the packages:")[2]
    assert stems <= set(re.findall(r"`(\w+)`", beside))


def test_the_page_of_files_names_no_other() -> None:
    there = {path.stem for path in FLEET.rglob("*") if path.suffix == ".py" or path.is_dir()}
    assert set().union(*sections().values()) - there == NO_FILES
