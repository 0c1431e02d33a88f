"""ARCHITECTURE.md sends a newcomer to files that are there; docs/internals.md names every room."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FLEET = ROOT / "src" / "fleet"
INTERNALS = (ROOT / "docs" / "internals.md").read_text()


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


def rooms() -> set[str]:
    """Every folder of `fleet` with modules in it, as docs/internals.md writes it."""
    return {f"{file.parent.relative_to(FLEET).as_posix()}/" for file in FLEET.glob("*/**/__init__.py")}


def test_the_page_of_rooms_names_every_room_and_its_files() -> None:
    rows = re.findall(r"^\| (`.+) \| .+ \| (.+) \|$", INTERNALS, flags=re.MULTILINE)
    assert len(rows) > 20
    for named, first in rows:
        folders = [FLEET / one for one in re.findall(r"`([\w/]+/)`", named)]
        folders = [one if one.is_dir() else folders[0].parent / one.name for one in folders]
        for file in re.findall(r"`([\w/]+\.py)`", first):
            assert any((folder / file).is_file() for folder in folders), f"{named} has no {file}"
    said = {part for one in re.findall(r"`([\w/]+)/`", INTERNALS) for part in one.split("/")}
    assert not {room for room in rooms() if not set(room.strip("/").split("/")) <= said}
