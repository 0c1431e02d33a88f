"""The stubs of what is made from rows are those that are checked in, and rows say what their functions do."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from fleet.static import layers
from fleet.static.layers import from_rows as of_layers
from fleet.static.registry import definitions
from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.nn import functional
from fleet_paddle.imperative.nn import table as classes
from fleet_paddle.rows.stubs import STUBS


@pytest.mark.parametrize(
    ("module", "made"),
    [
        (layers.table, of_layers.stub),
        (table, STUBS["functions"]),
        (functional.table, STUBS["functional"]),
        (classes, STUBS["classes"]),
    ],
)
def test_the_stub_is_what_the_rows_say(module: ModuleType, made: Callable[[], str]) -> None:
    stub = Path(inspect.getfile(module)).with_suffix(".pyi")
    assert ast.dump(ast.parse(stub.read_text())) == ast.dump(ast.parse(made())), "run make docs"


def test_every_row_is_a_function_with_its_own_name_and_document() -> None:
    rows = [calls for definition in definitions() for calls in definition.calls]
    assert len(rows) > 40
    for calls in rows:
        assert calls.doc.rstrip().endswith("."), calls
    for module in (layers.table, table, functional.table):
        for name in module.__all__:
            function = getattr(module, name)
            assert (function.__name__, function.__module__) == (name, module.__name__)
            assert function.__doc__
    for name in classes.__all__:
        assert getattr(classes, name).__name__ == name
