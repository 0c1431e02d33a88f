"""The import graph is the architecture: a package imports downward only, and some must never import torch."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fleet"
TOOLS = SOURCE.parent / "fleet_tools"
COMPAT = SOURCE.parents[1] / "compat" / "src"

# From the bottom up; packages of one layer do not know each other.
LAYERS = [
    {"_version"},
    {"_native", "_lazy", "errors"},
    {"checks", "env", "json_form", "net"},
    {"cores", "jobfiles"},
    {"strategy", "observe"},
    {"checkpoint", "job", "metrics", "optim", "roles"},
    {"stream"},
    {"collective", "ps", "launch"},
    {"nn"},
    {"runtime", "models"},
    {"api"},
    {"data"},
    {"engines"},
    {"__init__"},
]
# The same of `fleet_programs`.
PROGRAMS = COMPAT / "fleet_programs"
ROOMS = [
    {"datasets", "definition", "fs", "remote"},
    {"expressions", "kernel"},
    {"operators"},
    {"program"},
    {"executor", "parameters"},
    {"backward", "feeding", "layers", "transpiler"},
    {"io", "optimizer"},
    {"amp"},
    {"jobs"},
    {"kind"},
    {"__init__"},
]
# And of `fleet_tools`, which `fleet` never imports; these of them know torch.
ROOMS_OF_TOOLS = [
    {"planner", "synthetic"},
    {"engines", "forgetting", "looking", "streams", "traces", "watching"},
    {"chaos", "commands", "sinks"},
]
TOOLS_WITH_TORCH = {"forgetting", "looking", "synthetic"}
# And of `fleet_serve`: what it may ask of `fleet` knows no trainer, and torch is imported for predictions alone.
SERVE = SOURCE.parent / "fleet_serve"
ROOMS_OF_SERVE = [
    {"columns", "proto"},
    {"rows"},
    {"predict"},
    {"doors"},
    {"following"},
    {"client", "command"},
    {"__init__", "__main__"},
]
SERVE_ASKS = re.compile(
    r"fleet\.(_native|_version|checkpoint|env|errors|net|observe|ps\.(held|job|server|wire)|stream)\b"
)
ROOMS_WITHOUT_TORCH = {"expressions", "fs", "remote", "kind", "__init__"}
WITHOUT_TORCH = {
    *(
        "checkpoint",
        "errors",
        "env",
        "net",
        "job",
        "jobfiles",
        "strategy",
        "observe",
        "roles",
        "stream",
        "launch",
    ),
    *("api", "cores", "__init__"),
}
ONLY_READER_OF_THE_ENVIRONMENT = "env"
NAME_WHAT_IS_ABOVE = {
    "job/description.py",
    "launch/planning/script.py",
    "launch/arguments/parser.py",
}  # they start that as another process


def part_of(path: Path) -> str:
    """The package of the first level that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def level(part: str) -> int:
    levels = [number for number, layer in enumerate(LAYERS) if part in layer]
    assert levels, f"{part} has no place in the architecture; give it one in LAYERS and in ARCHITECTURE.md"
    return levels[0]


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Everything that a file says."""
    return list(ast.walk(ast.parse(path.read_text())))


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """Let nobody look for garbage among a million nodes: neither now nor, since they go, when later tests run."""
    gc.disable()
    yield
    gc.enable()
    nodes.cache_clear()


def nodes_for_types(path: Path) -> set[int]:
    """The ids of what only a type checker reads."""
    return {
        id(node)
        for block in nodes(path)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every module a file imports, and whether only a type checker does so."""
    for_types = nodes_for_types(path)
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in for_types) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import; write the full name"
            module = node.module or ""
            names = [f"fleet.{alias.name}" for alias in node.names] if module == "fleet" else [module]
            found += [(name, id(node) in for_types) for name in names]
    return found


FILES = sorted(SOURCE.rglob("*.py"))
PARTS = sorted({part_of(path) for path in FILES})


def files_of(part: str) -> list[Path]:
    return [path for path in FILES if part_of(path) == part]


@pytest.mark.parametrize("part", PARTS)
def test_imports_go_downward(part: str) -> None:
    for where, (module, for_types) in [(path, found) for path in files_of(part) for found in imports(path)]:
        if where.name == "__init__.py" and for_types:  # what a package offers, told to type checkers
            continue
        if module == "torch" or module.startswith("torch."):
            assert for_types or part not in WITHOUT_TORCH, f"{where} imports torch, which {part} must not"
        assert not re.match(r"(fleet_programs|fleet_paddle|fleet_serve|fleet_tools|paddle)\b", module), (
            f"{where} imports {module}, another house"
        )
        if not module.startswith("fleet"):
            continue
        if module == "fleet":
            assert level(part) == len(LAYERS) - 1, f"{where} imports the whole package"
            continue
        target = module.split(".")[1]
        assert target == part or level(target) < level(part), f"{where} imports {target}, which is not below {part}"


def test_imports_of_programs_go_downward() -> None:
    def room_of(path: Path) -> str:
        return path.relative_to(PROGRAMS).parts[0].removesuffix(".py")

    levels = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
    for where in sorted(PROGRAMS.rglob("*.py")):
        room = room_of(where)
        for module, for_types in imports(where):
            assert not re.match(r"(fleet_paddle|paddle)\b", module), f"{where} imports {module}, another house"
            if module.partition(".")[0] == "torch":
                assert for_types or room not in ROOMS_WITHOUT_TORCH, f"{where} imports torch, which {room} must not"
            if for_types or not module.startswith("fleet_programs."):
                continue
            target = module.split(".")[1]
            assert target == room or levels[target] < levels[room], f"{where} imports {target}, which is not below"


def test_imports_of_tools_go_downward() -> None:
    levels = {room: number for number, rooms in enumerate(ROOMS_OF_TOOLS) for room in rooms}
    for where in sorted(TOOLS.glob("*/*.py")):
        room = where.parent.name
        for module, for_types in imports(where):
            assert not re.match(r"(fleet_programs|fleet_paddle|paddle)\b", module), f"{where} imports {module}"
            if module.partition(".")[0] == "torch":
                assert for_types or room in TOOLS_WITH_TORCH, f"{where} imports torch, which {room} must not"
            if module.startswith("fleet_tools."):
                target = module.split(".")[1]
                assert target == room or levels[target] < levels[room], f"{where} imports {target}, which is not below"


def test_imports_of_serve_go_downward_and_reach_no_trainer() -> None:
    levels = {room: number for number, rooms in enumerate(ROOMS_OF_SERVE) for room in rooms}
    for where in sorted(SERVE.rglob("*.py")):
        room = where.relative_to(SERVE).parts[0].removesuffix(".py")
        for module, for_types in imports(where):
            assert module.partition(".")[0] != "torch" or for_types or room == "predict", f"{where} imports torch"
            if module.startswith("fleet_serve."):
                target = module.split(".")[1]
                assert target == room or levels[target] < levels[room], f"{where} imports {target}, which is not below"
            elif module.startswith("fleet"):
                is_known = (room, module.split(".")[1]) in {("columns", "data"), ("predict", "nn")}
                assert SERVE_ASKS.match(module) or is_known, f"{where} imports {module}, which is no part of serving"


def test_fleet_finds_what_it_asks_of_tools() -> None:
    """In no other words than those of pyproject.toml; each entry point is there."""
    asked = {
        found
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tool"
        for found in [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    }
    offered = {one.name: one for one in entry_points(group="fleet.tools")}
    assert {*asked, "plan", "synthetic"} == set(offered)
    for one in [*offered.values(), *entry_points(group="fleet.commands")]:
        assert one.load() is not None


def modules_of(source: Path) -> dict[str, Path]:
    """Every module below a folder of packages, by its full name."""
    files = {file: file.relative_to(source).with_suffix("").parts for file in sorted(source.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): file for file, parts in files.items()}


def modules_imported(path: Path, known: Collection[str]) -> set[str]:
    """Those modules that a file imports when it is run, inside functions too."""
    for_types = nodes_for_types(path)
    found: set[str] = set()
    for node in nodes(path):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            asked = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= asked if asked.issubset(known) else {*asked, node.module}
    return found.intersection(known)


def cycle_in(graph: Mapping[str, Collection[str]]) -> list[str]:
    """One cycle, from a module back to itself; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    sources = [SOURCE.parent, COMPAT]
    files = {name: file for source in sources for name, file in modules_of(source).items()}
    found = cycle_in({name: modules_imported(file, files) - {name} for name, file in files.items()})
    assert not found, f"an import cycle: {' -> '.join(found)}"


def test_a_cycle_is_found_inside_functions_and_not_between_types(tmp_path: Path) -> None:
    for name, text in {
        "__init__": "",
        "below": "def call():\n    from own.above import one\n    return one\n",
        "above": "from own import below\none = below\n",
        "types": "if TYPE_CHECKING:\n    from own import users\n",
        "users": "import own.types\n",
    }.items():
        (tmp_path / "own" / f"{name}.py").parent.mkdir(exist_ok=True)
        (tmp_path / "own" / f"{name}.py").write_text(text)
    files = modules_of(tmp_path)
    found = cycle_in({name: modules_imported(file, files) for name, file in files.items()})
    assert set(found) == {"own.below", "own.above"}


@pytest.mark.parametrize("part", PARTS)
def test_texts_name_no_module_above(part: str) -> None:
    """An import by name would go upward unseen."""
    for path in files_of(part):
        if str(path.relative_to(SOURCE)) in NAME_WHAT_IS_ABOVE:
            continue
        for node in nodes(path):
            text = node.value if isinstance(node, ast.Constant) else None
            if not isinstance(text, str) or re.fullmatch(r"fleet(\.\w+)+", text) is None:
                continue
            file, target = SOURCE.parent / text.replace(".", "/"), text.split(".")[1]
            if file.is_dir() or file.with_name(f"{file.name}.py").is_file():
                assert target == part or level(target) < level(part), f"{path} names {text}, which is not below {part}"


@pytest.mark.parametrize("part", [part for part in PARTS if part != ONLY_READER_OF_THE_ENVIRONMENT])
def test_only_one_module_reads_the_environment(part: str) -> None:
    for path in files_of(part):
        used = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        assert not used & {"environ", "environb", "getenv", "putenv"}, f"{path}: read it through fleet.env"


def test_importing_fleet_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    program = "import fleet.api, fleet.strategy, sys; print(' '.join(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "rich", "psutil", "mpi4py", "click"} & set(modules)
    assert not {"multiprocessing", "difflib", "hashlib", "random", "sysconfig", "tomllib", "ctypes"} & set(modules)
