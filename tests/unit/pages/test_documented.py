"""Every public definition has a docstring: a line that says what the name does not.

Left out are names that begin with an underscore, dunders included, functions inside functions, overloads, setters, and
methods that inherit their docstring: from a documented class of ours, or from one of another library (`INHERITED`).
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = {
    "src/fleet": "fleet",
    "src/fleet_tools": "fleet_tools",
    **{f"compat/src/{house}": house for house in ("fleet_programs", "fleet_paddle", "paddle")},
}
"""The folders that are looked at, with the package that each of them is."""

GENERATED = {"ps/proto"}

INHERITED = {
    # torch.nn.Module, torch.optim.Optimizer: torch documents them, and so do our classes where they differ.
    "forward",
    "step",
    "zero_grad",
    "state_dict",
    "load_state_dict",
    "named_parameters",
    "named_buffers",
    "extra_repr",
    # threading.Thread, logging.Handler: what the standard library calls.
    "run",
    "emit",
}
"""Methods that may do without a docstring where a base class of another library has them."""

SILENT = {"abc.ABC", "typing.Generic", "typing.Protocol"}
"""Base classes that say nothing about methods."""

DESCRIBED_BY = {
    # Protocols: the few methods that are asked of something which is documented elsewhere.
    "fleet.checkpoint.state.tables.ReadableTable": "fleet._native.Table",
    "fleet.checkpoint.state.tables.TableLike": "fleet._native.Table",
    "fleet.collective.parts.own_bucket.Bucket": "torch.distributed.GradBucket",
    "fleet_programs.datasets.exchange.ShuffleFleet": "fleet.api.Fleet",
    "fleet.runtime.training.objects.Stateful": "torch.optim.Optimizer",
    # An implementation of a protocol that cannot name it as its base: the protocol's module imports this one.
    "fleet.ps.held.dense_cuda.DeviceGroup": "fleet.ps.held.dense.DenseGroup",
}
"""Classes whose methods are explained by another class."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Class:
    """A class of the project: the methods that it documents, and what it is made of."""

    documented: set[str]
    bases: list[str]
    """Dotted names, for example `fleet_programs.program.variable.Variable` or `torch.nn.Module`."""


@dataclass
class Module:
    """A file: its tree, and what the names in it stand for."""

    path: Path
    name: str
    tree: ast.Module
    names: dict[str, str] = field(default_factory=dict)

    def full_name(self, expression: ast.expr) -> str:
        """The dotted name of a base class; type arguments do not matter."""
        if isinstance(expression, ast.Subscript):
            return self.full_name(expression.value)
        if isinstance(expression, ast.Attribute):
            return f"{self.full_name(expression.value)}.{expression.attr}"
        text = ast.unparse(expression)
        return self.names.get(text, f"{self.name}.{text}")


def is_public(relative: Path) -> bool:
    names = [part.removesuffix(".py") for part in relative.parts]
    if any(relative.is_relative_to(folder) for folder in GENERATED):
        return False
    return all(name == "__init__" or not name.startswith("_") for name in names)


def read(path: Path, folder: Path, package: str) -> Module:
    parts = [package, *path.relative_to(folder).with_suffix("").parts]
    module = Module(path, ".".join(part for part in parts if part != "__init__"), ast.parse(path.read_text()))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            module.names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            module.names |= {alias.asname: alias.name for alias in node.names if alias.asname}
            module.names |= {first: first for first in (alias.name.split(".")[0] for alias in node.names)}
    return module


@cache
def modules(source: str) -> list[Module]:
    folder = ROOT / source
    return [read(path, folder, SOURCES[source]) for path in sorted(folder.rglob("*.py"))]


@cache
def classes() -> dict[str, Class]:
    """Every class of the project, also the private ones, by its dotted name."""
    return {
        f"{module.name}.{node.name}": Class(
            {one.name for one in node.body if isinstance(one, Function) and ast.get_docstring(one)},
            [module.full_name(base) for base in node.bases],
        )
        for source in SOURCES
        for module in modules(source)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """Let nobody look for garbage among a million nodes: neither now nor, since they go, when later tests run."""
    gc.disable()
    yield
    gc.enable()
    modules.cache_clear()


def inherits(method: str, bases: list[str]) -> bool:
    """Whether a class with these bases finds documentation of a method in one of them."""
    for base in bases:
        if base in DESCRIBED_BY:
            return True
        known = classes().get(base)
        if known is None:
            if method in INHERITED and base not in SILENT:
                return True
        elif method in known.documented or inherits(method, known.bases):
            return True
    return False


def is_exempt(node: Function) -> bool:
    """Overloads, and the setters and deleters of properties, whose getter has the docstring."""
    decorators = {ast.unparse(one) for one in node.decorator_list}
    return not decorators.isdisjoint({"overload", f"{node.name}.setter", f"{node.name}.deleter"})


def undocumented(module: Module) -> Iterator[str]:
    """`fleet.module.Class.method`, for everything public that nothing says a word about."""
    if ast.get_docstring(module.tree) is None:
        yield module.name
    for node in module.tree.body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None and (isinstance(node, ast.ClassDef) or not is_exempt(node)):
            yield f"{module.name}.{node.name}"
        if isinstance(node, ast.ClassDef):
            bases = [f"{module.name}.{node.name}", *(module.full_name(base) for base in node.bases)]
            for one in node.body:
                if not isinstance(one, Function) or one.name.startswith("_") or is_exempt(one):
                    continue
                if ast.get_docstring(one) is None and not inherits(one.name, bases):
                    yield f"{module.name}.{node.name}.{one.name}"


@pytest.mark.parametrize("source", SOURCES)
def test_every_public_definition_is_documented(source: str) -> None:
    public = [module for module in modules(source) if is_public(module.path.relative_to(ROOT / source))]
    missing = [name for module in public for name in undocumented(module)]
    assert not missing, f"{len(missing)} have no docstring: " + ", ".join(missing)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""A module."""\ndef one(): ...', ["m.one"]),
        ('"""A module."""\ndef _one(): ...', []),
        ('"""A module."""\nclass A:\n    """A."""\n    def one(self): ...', ["m.A.one"]),
        ('"""A module."""\nclass A(dict):\n    """A."""\n    def run(self): ...', []),
        ('"""A module."""\nclass A(dict):\n    """A."""\n    def other(self): ...', ["m.A.other"]),
        ('"""A module."""\nclass A:\n    """A."""\n    @overload\n    def one(self): ...', []),
        ("x = 1", ["m"]),
    ],
)
def test_the_check_finds_what_has_no_docstring(text: str, found: list[str]) -> None:
    assert list(undocumented(Module(Path("m.py"), "m", ast.parse(text)))) == found
