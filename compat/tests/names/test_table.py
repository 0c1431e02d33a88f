"""The stubs of what is made from rows are those that are checked in, and rows say what their functions do."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import run
from types import ModuleType

import pytest

from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.nn import functional
from fleet_paddle.imperative.nn import table as classes
from fleet_paddle.imperative.tensor import Tensor
from fleet_paddle.programs import layers as more
from fleet_paddle.rows.listing import functions
from fleet_paddle.rows.stubs import STUBS
from fleet_programs import layers
from fleet_programs.definition.registry import definitions
from fleet_programs.layers.building import from_rows as of_layers
from fleet_programs.operators import OWN


@pytest.mark.parametrize(
    ("module", "made"),
    [
        (layers.table, lambda: of_layers.stub(OWN)),
        (more.table, STUBS["layers"]),
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
    for module in (layers.table, more.table, table, functional.table):
        for name in module.__all__:
            function = getattr(module, name)
            assert (function.__name__, function.__module__) == (name, module.__name__)
            assert function.__doc__
    for name in classes.__all__:
        assert getattr(classes, name).__name__ == name


def test_the_command_that_writes_stubs_needs_no_other_import_before_it() -> None:
    made = run(
        [sys.executable, "-m", "fleet_paddle.rows.stubs", "functions"], capture_output=True, text=True, check=True
    )
    assert made.stdout == STUBS["functions"]()


def test_a_function_is_a_method_where_its_first_argument_is_a_tensor() -> None:
    rows = {one.spelling.name: one for one in functions()}
    assert rows["reshape"].is_method
    assert not rows["zeros"].is_method
    assert not rows["where"].is_method
    assert hasattr(Tensor, "strided_slice")
    assert not hasattr(Tensor, "arange")
