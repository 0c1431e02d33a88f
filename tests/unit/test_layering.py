"""The import graph is the architecture: a package imports downward only, and some must never import torch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fleet"

# From the bottom up; packages of one layer do not know each other.
LAYERS = [
    {"_version", "_native", "errors"},
    {"env", "net"},
    {"strategy", "observe"},
    {"checkpoint", "metrics", "optim", "roles"},
    {"collective", "ps", "static", "launch"},
    {"transpiler", "nn"},
    {"runtime"},
    {"api"},
    {"data", "imperative"},
    {"either"},
    {"__init__", "selfcheck"},
]
WITHOUT_TORCH = {"checkpoint", "errors", "env", "net", "strategy", "observe", "roles", "launch", "api", "__init__"}
ONLY_READER_OF_THE_ENVIRONMENT = "env"


def part_of(path: Path) -> str:
    """The package of the first level that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def level(part: str) -> int:
    levels = [number for number, layer in enumerate(LAYERS) if part in layer]
    assert levels, f"{part} has no place in the architecture; give it one in LAYERS and in ARCHITECTURE.md"
    return levels[0]


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every module a file imports, and whether only a type checker does so."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in for_types) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import; write the full name"
            module = node.module or ""
            names = [f"fleet.{alias.name}" for alias in node.names] if module == "fleet" else [module]
            found += [(name, id(node) in for_types) for name in names]
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_downward(path: Path) -> None:
    part = part_of(path)
    for module, for_types in imports(path):
        if part == "__init__" and for_types:
            continue
        if module == "torch" or module.startswith("torch."):
            assert for_types or part not in WITHOUT_TORCH, f"{part} must not import torch"
        if not module.startswith("fleet"):
            continue
        if module == "fleet":
            assert level(part) == len(LAYERS) - 1, f"{part} imports the whole package"
            continue
        target = module.split(".")[1]
        assert target == part or level(target) < level(part), f"{part} imports {target}, which is not below it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_one_module_reads_the_environment(path: Path) -> None:
    if part_of(path) == ONLY_READER_OF_THE_ENVIRONMENT:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        name = node.attr if isinstance(node, ast.Attribute) else None
        assert name not in ("environ", "environb", "getenv", "putenv"), "read it through fleet.env"


def test_importing_fleet_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    program = "import fleet.api, fleet.strategy, sys; print(' '.join(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "rich", "psutil", "mpi4py", "click"} & set(modules)


def test_public_names_are_sorted_and_all_resolve() -> None:
    import fleet

    assert fleet.__all__ == sorted(fleet.__all__)
    only_after_init = {"device", "main_program", "startup_program", "util"}
    assert all(getattr(fleet, name) is not None for name in set(fleet.__all__) - only_after_init)
    with pytest.raises(AttributeError, match="no attribute 'innit'"):
        _ = fleet.innit
