"""A worker and its client are what they were made as: no other file sets anything in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fleet

SOURCES = Path(fleet.__file__).parent
NAMES = {"worker", "client"}


def set_in(tree: ast.AST) -> Iterator[str]:
    """What a file sets in a thing that it calls a worker or a client, at any depth, as `worker.count.num`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            inner: ast.expr = node.value
            while isinstance(inner, ast.Attribute | ast.Subscript):
                if isinstance(inner, ast.Attribute) and inner.attr.lstrip("_") in NAMES:
                    yield ast.unparse(node)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id in NAMES:
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr"):
            owner = ast.unparse(node.args[0]).rsplit(".", 1)[-1]
            yield from [ast.unparse(node)] * (owner.lstrip("_") in NAMES)


def test_nobody_sets_a_field_of_a_worker_or_a_client_from_outside() -> None:
    found = {
        f"{path.relative_to(SOURCES)}: {what}"
        for path in SOURCES.rglob("*.py")
        for what in set_in(ast.parse(path.read_text()))
    }
    assert not found, (
        "give it to Worker or Client when it is made (fleet.ps.worker.parts.contract), or make it a method of theirs"
    )


def test_it_would_be_noticed() -> None:
    for code in (
        "worker.passing = None",
        "self._worker.count.num = 1",
        "self.client.server_set.transports[0] = other",
        "one.worker.num_steps += 1",
        "del client.plan",
        "setattr(self._worker, name, 1)",
    ):
        assert [*set_in(ast.parse(code))], code
    assert not [*set_in(ast.parse("self._worker = worker = made(client.server_set)\nworker.go_on_at(1)"))]
