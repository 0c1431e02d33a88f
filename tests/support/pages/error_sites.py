"""Where Fleet makes an error, and what it says there: read off the source, with `…` for what is put in at run time."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "src" / "fleet", ROOT / "src" / "fleet_tools", ROOT / "compat" / "src" / "fleet_programs")
HOLE = "…"
ENOUGH = 24
"""No error has more forms than this; where choices multiply to more, the first are looked at."""


@dataclass(frozen=True)
class Site:
    """One call that makes an error."""

    kind: str
    """Its class."""
    path: str
    line: int
    texts: tuple[str, ...]
    """What it may say: a line for each form that its choices lead to."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.kind}: {self.texts[0]}"


@dataclass
class _Module:
    """The parts of a file in which a text may be found that is made elsewhere in it."""

    path: str
    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    scopes: dict[ast.AST, dict[str, list[ast.expr]]] = field(default_factory=dict)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)


@cache
def sites() -> tuple[Site, ...]:
    """Every place of the packages where an error of Fleet's is made."""
    gc.disable()  # there is none among a million nodes, which go when the places are known
    classes = _error_classes()
    found = tuple(site for module in _modules() for site in _sites_of(module, classes))
    for cached in (_modules, _functions):
        cached.cache_clear()
    gc.enable()
    return found


@cache
def _modules() -> list[_Module]:
    return [_read(path) for source in SOURCES for path in sorted(source.rglob("*.py"))]


@cache
def _functions() -> dict[str, tuple[_Module, ast.FunctionDef]]:
    """The functions of the package by name, where no two have one name: imported ones are found by it."""
    found: dict[str, list[tuple[_Module, ast.FunctionDef]]] = {}
    for module in _modules():
        for name, function in module.functions.items():
            found.setdefault(name, []).append((module, function))
    return {name: those[0] for name, those in found.items() if len(those) == 1}


def _read(path: Path) -> _Module:
    module = _Module(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
    scope_of: dict[ast.AST, ast.AST] = {module.tree: module.tree}
    module.scopes[module.tree] = {}
    for node in ast.walk(module.tree):  # from the outside in, so a parent is known before its children
        scope = scope_of[node]
        if isinstance(node, ast.FunctionDef):
            module.functions.setdefault(node.name, node)
            module.scopes[node] = {}
            scope = node
        for child in ast.iter_child_nodes(node):
            scope_of[child] = scope
            module.parents[child] = scope
        for name, value in _assigned(node):
            module.scopes[scope_of[node]].setdefault(name, []).append(value)
    return module


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
                yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))
    elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, ast.BinOp(ast.Name(node.target.id), ast.Add(), node.value)


def _error_classes() -> set[str]:
    """The names of FleetError and of all that derive from it, private ones included."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for module in _modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    known = {"FleetError"}
    while grown := {name for name, above in bases.items() if above & known} - known:
        known |= grown
    return known


def _sites_of(module: _Module, classes: set[str]) -> Iterator[Site]:
    for node in module.parents:
        if not isinstance(node, ast.Call):
            continue
        kind = "CommunicationError" if _called(node) == "abort" else _called(node)  # what a server answers with
        if kind in classes and node.args:
            words = [_texts(argument, module, module.parents[node], 0) for argument in node.args]
            yield Site(kind, module.path, node.lineno, tuple(" ".join(one) for one in _combined(words)))


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _combined(parts: list[list[str]]) -> list[tuple[str, ...]]:
    found = []
    for one in product(*parts):
        found.append(one)
        if len(found) == ENOUGH:
            break
    return found


def _texts(node: ast.AST, module: _Module, scope: ast.AST, depth: int) -> list[str]:
    """What an expression may say, as far as this file tells."""
    if depth > 8:
        return [HOLE]
    if isinstance(node, ast.Constant):
        return [node.value if isinstance(node.value, str) else HOLE]
    if isinstance(node, ast.JoinedStr):
        parts = [_texts(value, module, scope, depth + 1) for value in node.values]
        return ["".join(one) for one in _combined(parts)]
    if isinstance(node, ast.FormattedValue):
        return [HOLE] if node.conversion != -1 or node.format_spec else _texts(node.value, module, scope, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_texts(side, module, scope, depth + 1) for side in (node.left, node.right)]
        return ["".join(one) for one in _combined(parts)]
    if isinstance(node, ast.IfExp):
        return [text for side in (node.body, node.orelse) for text in _texts(side, module, scope, depth + 1)]
    return _from_elsewhere(node, module, scope, depth)


def _from_elsewhere(node: ast.AST, module: _Module, scope: ast.AST, depth: int) -> list[str]:
    """A name is what was assigned to it, in its function or in the file; a call is what its function returns."""
    values: list[ast.expr] = []
    within = scope
    if isinstance(node, ast.Name):
        values = module.scopes[scope].get(node.id, [])
        if not values and scope is not module.tree:
            values, within = module.scopes[module.tree].get(node.id, []), module.tree
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not _is_argument(node.func.id, scope):
        name = node.func.id
        own = (module, module.functions[name]) if name in module.functions else _functions().get(name)
        if own:
            module, within = own
            values = [one.value for one in ast.walk(within) if isinstance(one, ast.Return) and one.value]
    found = [text for value in values for text in _texts(value, module, within, depth + 1)]
    return list(dict.fromkeys(found))[:ENOUGH] or [HOLE]


def _is_argument(name: str, scope: ast.AST) -> bool:
    return isinstance(scope, ast.FunctionDef) and name in {
        one.arg for one in [*scope.args.args, *scope.args.kwonlyargs]
    }
