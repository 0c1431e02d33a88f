"""Arithmetic on sparse rows: what clips and scales the gradient of a lookup."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_programs.definition.kinds import ROWS
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import Scope
from fleet_programs.kernel.rows import Rows
from program_support.programs import building

INDEX = torch.tensor([3, 1, 3])
VALUES = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def applied(type: str, attrs: dict[str, Any]) -> Any:
    """What an op makes of the rows, of which two are the same."""
    with building() as built:
        block = built.main.global_block()
        rows = block.create_var("rows", [5, 2], kind=ROWS, persistable=True)
        out = block.create_var("out")
        block.append_op(type, {"X": rows}, {"Out": out}, attrs)
    scope = Scope()
    scope.tensors["rows"] = Rows(INDEX, VALUES, 5)  # type: ignore[assignment]
    return Executor().run(built.main, {}, [out], scope=scope, return_numpy=False)[0]


DENSE = Rows(INDEX, VALUES, 5).to_dense()


@pytest.mark.parametrize(
    ("type", "attrs", "expected"),
    [
        ("scale", {"scale": 0.5}, DENSE * 0.5),
        ("clip", {"min": -4.0, "max": 4.0}, DENSE.clamp(-4, 4)),
        ("clip_by_norm", {"max_norm": 2.0}, DENSE * 2 / DENSE.norm()),
    ],
)
def test_equals_the_same_on_the_whole_tensor(type: str, attrs: dict[str, Any], expected: torch.Tensor) -> None:
    found = applied(type, attrs)
    assert isinstance(found, Rows)
    np.testing.assert_allclose(found.to_dense(), expected, rtol=1e-6)


@pytest.mark.parametrize("type", ["cast", "mean", "square", "assign", "isfinite", "reshape"])
def test_what_takes_no_rows_says_so_while_building(type: str) -> None:
    with pytest.raises(UsageError, match=rf"test_sp.*: {type}: X 'rows' has some rows only, .*use is_sparse=False"):
        applied(type, {"shape": [-1]} if type == "reshape" else {})


def test_rows_take_no_bias() -> None:
    with pytest.raises(UsageError, match="X 'rows' is sparse rows, which are scaled to another variable and without"):
        applied("scale", {"bias": 1.0})
