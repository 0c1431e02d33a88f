"""No file of Fleet looks for a sentence in a log: what the launcher has to know, processes leave in jobfiles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"
READERS = {"open", "read_text", "read_bytes", "readlines"}
SHOWN = {
    "fleet/launch/processes/logs.py": "tail and end_line themselves",
    "fleet/launch/run/report.py": "the last lines in the report of a failed job",
    "fleet/launch/run/crew.py": "a line that a dead process has begun is ended, so that the next life begins its own",
    "fleet/launch/run/watch.py": "the followed log on the terminal",
    "fleet_tools/watching/routes.py": "the last lines on the page",
}
"""Who may have a log read, and what of it people are shown."""


def names_a_log(node: ast.AST) -> bool:
    """Whether an expression is the path of a log."""
    return isinstance(node, ast.Attribute) and node.attr in ("log_path", "log")


def readings(tree: ast.AST) -> Iterator[int]:
    """The lines in which a log is opened or read, or its path gets another name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in READERS and names_a_log(called.value):
                yield node.lineno
            if isinstance(called, ast.Name | ast.Attribute) and any(map(names_a_log, node.args)):
                name = called.id if isinstance(called, ast.Name) else called.attr
                if name in READERS:
                    yield node.lineno
        if isinstance(node, ast.Assign | ast.NamedExpr) and names_a_log(node.value):
            yield node.lineno


def readers_of_logs(tree: ast.AST) -> set[str]:
    """What a file imports of those that read a log to show it."""
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imported for alias in node.names}
    return names & {"tail", "end_line", "LogFollower"}


def test_a_log_is_read_only_to_be_shown() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        assert not list(readings(tree)), f"{path}: a log is for people; leave a file in fleet.jobfiles"
        if readers_of_logs(tree):
            assert str(path.relative_to(SOURCE)) in SHOWN, f"{path} reads a log; what of it are people shown?"


@pytest.mark.parametrize(
    "text",
    [
        "child.plan.log_path.open('rb')",
        "open(plan.log_path)",
        "files.log.read_text()",
        "path = child.plan.log_path",
    ],
)
def test_a_log_that_is_read_is_found(text: str) -> None:
    assert list(readings(ast.parse(text)))
