"""Every folder of `fleet`, `fleet_serve` and `fleet_tools` is a room: it says what happens in it and stays small."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fleet"
HOUSES = (SOURCE, ROOT / "src" / "fleet_serve", ROOT / "src" / "fleet_tools")
FILES = [file for house in HOUSES for file in sorted(house.rglob("*.py")) if not file.stem.endswith("_pb2")]
ROOMS = [file.parent for file in FILES if file.name == "__init__.py"]

MOST_MODULES, MOST_LINES, MOST_LINES_OF_A_FUNCTION = 20, 350, 80
MOST_LINES_IN_ALL = 69_880


def named(room: Path) -> str:
    return room.relative_to(SOURCE.parent).as_posix()


class Facts(NamedTuple):
    """What the tests below ask of a file; the tree itself, of a million nodes for all files, is not kept."""

    docstring: str
    num_lines: int
    functions: list[tuple[str, int]]
    """Names and lengths."""
    classes: list[str]
    sentences: list[tuple[int, str]]
    """Docstrings of anything, with their lines."""
    imports: set[str]
    """What it imports when it runs, inside functions too."""


@cache
def facts_of(file: Path) -> Facts:
    text = file.read_text()
    tree = ast.parse(text)
    found = Facts(ast.get_docstring(tree) or "", text.count("\n"), [], [], [], set())
    for_types: set[int] = set()
    for node in ast.walk(tree):  # an `if` comes before what is in it
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
        elif isinstance(node, ast.ClassDef):
            found.classes.append(node.name)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.sentences.append((node.lineno, str(node.value.value)))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for_types.update(map(id, ast.walk(node)))
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
            found.imports.update({f"{node.module}.{alias.name}" for alias in node.names}, [node.module])
    return found


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """The folder that a module lies in; a package is its own room."""
    file = SOURCE.parent / module.replace(".", "/")
    return module if file.is_dir() else module.rpartition(".")[0]


@pytest.mark.parametrize("room", ROOMS, ids=named)
def test_a_room_says_what_happens_in_it(room: Path) -> None:
    text = facts_of(room / "__init__.py").docstring
    assert len(text) > 20, f"{named(room)}/__init__.py says nothing; a newcomer opens it first"
    for name in re.findall(r"`([a-z_]\w*(?:\.\w+)*)`", text):
        first, _, rest = name.partition(".")
        if not (room / first).is_dir() and not (room / f"{first}.py").is_file():
            continue  # a word of users, such as `fleetrun`
        while (room / first).is_dir() and rest:
            room, (first, _, rest) = room / first, rest.partition(".")
        if rest:
            assert re.search(rf"^(class|def) {rest}\b", (room / f"{first}.py").read_text(), re.MULTILINE), name


COMPAT = ROOT / "compat"
TOPS = [*HOUSES, ROOT / "tests", COMPAT / "src" / "fleet_programs", COMPAT / "src" / "fleet_paddle", COMPAT / "tests"]
"""`paddle` has the folders of PaddlePaddle, whatever lies in them."""
FOLDERS = sorted({file.parent for top in TOPS for file in top.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_a_folder_is_seen_at_a_glance(folder: Path) -> None:
    modules = [file for file in folder.glob("*.py") if file.name not in ("__init__.py", "conftest.py")]
    assert len(modules) <= MOST_MODULES, f"{folder}: {len(modules)} modules; what are its inner rooms?"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_files_and_functions_are_read_in_one_go(file: Path) -> None:
    lines = facts_of(file).num_lines
    assert lines <= MOST_LINES, f"{file}: {lines} lines; which two ideas are in it?"
    for name, length in facts_of(file).functions:
        assert length <= MOST_LINES_OF_A_FUNCTION, f"{file}: {name} has {length} lines"


def test_the_whole_stays_small() -> None:
    lines = sum(facts_of(file).num_lines for file in FILES if file.is_relative_to(SOURCE))
    assert lines <= MOST_LINES_IN_ALL, f"src/fleet has {lines} lines: what wins least, by its figures, and leaves?"


def test_a_name_of_a_class_stands_once() -> None:
    found = Counter(name for file in FILES for name in facts_of(file).classes if not name.startswith("_"))
    assert not [name for name, count in found.items() if count > 1]


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_docstrings_stand_by_themselves(file: Path) -> None:
    for line, text in facts_of(file).sentences:
        assert not re.match(r"(Of|Those)\b", text), f"{file}:{line}: {text}"


def imported(file: Path) -> set[str]:
    """The modules of `fleet` that a file imports when it runs."""
    found = facts_of(file).imports
    return {module for module in found if module in MODULES and MODULES[module].name != "__init__.py"}


MODULES = {module_of(file): file for file in FILES}


def test_rooms_import_one_way() -> None:
    graph: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        if file.name == "__init__.py":
            continue
        # What lies at the top of a folder with inner rooms is above them, or below; each stands for itself.
        own = module if any((file.parent / one).is_dir() for one in inner_rooms(file.parent)) else room_of(module)
        for other in imported(file):
            there = MODULES[other]
            target = other if any(inner_rooms(there.parent)) else room_of(other)
            if target != own:
                graph.setdefault(own, set()).add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"rooms import each other: {' -> '.join(error.args[1])}")


def inner_rooms(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir() if (one / "__init__.py").is_file()]
