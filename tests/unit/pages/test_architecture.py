"""ARCHITECTURE.md sends a newcomer to files that are there; docs/internals.md names every room, and walks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FLEET = ROOT / "src" / "fleet"
BESIDE = [ROOT / "src" / "fleet_serve", ROOT / "src" / "fleet_tools"]
HOMES = (ROOT, FLEET, ROOT / "src", ROOT / "compat" / "src")
INTERNALS = (ROOT / "docs" / "internals.md").read_text()
ROOMS = [file.parent.relative_to(FLEET).as_posix() + "/" for file in FLEET.glob("*/**/__init__.py")]
ROOMS += [
    file.parent.relative_to(FLEET.parent).as_posix() + "/" for home in BESIDE for file in home.rglob("__init__.py")
]
LONGEST_WALKS = [30, 14, 14, 20]
MOST_LINES = 120


def is_there(path: str) -> bool:
    found = [home / path for home in HOMES] + [one for home in HOMES for one in home.glob(path)]
    return any(one.exists() for one in found)


def test_the_files_where_to_start_are_there() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.partition("## I want to change")[2], flags=re.MULTILINE)
    named = [path for _, where in rows for path in re.findall(r"`([\w/.*]+)`", where) if "/" in path or "." in path]
    assert len(named) > 25
    for path in named:
        assert is_there(path), f"ARCHITECTURE.md names {path}"


def test_the_tree_is_that_of_the_package() -> None:
    tree = PAGE.partition("src/fleet/ ")[2].partition("src/fleet_serve/ ")[0]
    listed = {name for line in tree.splitlines()[1:] for name in re.findall(r"(\w+)/(?=  |$)", line)}
    assert listed == {file.parent.name for file in FLEET.glob("*/__init__.py")}


def test_internals_are_read_in_one_go() -> None:
    assert len(INTERNALS.splitlines()) <= MOST_LINES


def test_the_table_names_every_room_and_its_files() -> None:
    rows = re.findall(r"^\| (`.+) \| .+ \| (.+) \|$", INTERNALS, flags=re.MULTILINE)
    named = [room for rooms, _ in rows for room in re.findall(r"`([\w/]+/)`", rooms)]
    assert sorted(named) == sorted(ROOMS)
    for rooms, first in rows:
        folders = [home / one for home in (FLEET, FLEET.parent) for one in re.findall(r"`([\w/]+/)`", rooms)]
        files = re.findall(r"`([^`]+)`", first)
        assert files, f"{rooms} does not say what to open first"
        for file in files:
            assert any((folder / file).is_file() for folder in folders), f"{rooms} has no {file}"


def test_every_file_of_the_page_is_there() -> None:
    text = re.sub(r"^\|.*\|$", "", INTERNALS, flags=re.MULTILINE)
    for path in re.findall(r"`([\w/]+/[\w.]*|[\w/]+\.(?:py|cc|h))`", text):
        assert is_there(path), f"docs/internals.md names {path}"


@pytest.mark.parametrize("number", range(len(LONGEST_WALKS)))
def test_a_walk_is_as_long_as_it_says(number: int) -> None:
    walks = re.findall(r"^## .+: (\d+) files\n\n((?:[\d ].+\n)+)", INTERNALS, flags=re.MULTILINE)
    assert len(walks) == len(LONGEST_WALKS)
    said, steps = walks[number]
    files = set(re.findall(r"`([\w/]+\.(?:py|cc|h))`", steps))
    assert len(files) == int(said) <= LONGEST_WALKS[number]
