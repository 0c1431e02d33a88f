"""Rows of questions: are they equal, are there any, how many dimensions."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.rows.function import function
from fleet_programs import layers
from fleet_programs.program.variable import Variable

_NEAR = "x, y, rtol=1e-05, atol=1e-08, equal_nan=False, name"


def _close(x: torch.Tensor, y: torch.Tensor, rtol: Any, atol: Any, equal_nan: bool) -> torch.Tensor:
    return torch.isclose(x, y, float(rtol), float(atol), equal_nan)


def _close_of(x: Variable, y: Variable, rtol: float, atol: float, equal_nan: bool, name: str | None) -> Any:
    near = layers.abs(x - y) <= layers.abs(y) * rtol + atol
    if not equal_nan:
        return near
    return layers.logical_or(near, layers.logical_and(layers.not_equal(x, x), layers.not_equal(y, y)))


FUNCTIONS = [
    function(f"isclose({_NEAR})", "Where |x - y| <= atol + rtol * |y|.", _close, _close_of, num_operands=2),
    function(
        f"allclose({_NEAR})",
        "Whether |x - y| <= atol + rtol * |y|, everywhere.",
        lambda *given: _close(*given).all(),
        lambda *given: layers.reduce_all(_close_of(*given)),
        num_operands=2,
    ),
    function(
        "equal_all(x, y, name)",
        "Whether both are equal, everywhere.",
        lambda x, y: torch.tensor(torch.equal(x, y), device=x.device),
        lambda x, y, name: layers.reduce_all(layers.equal(x, y), name=name),
        num_operands=2,
    ),
    function(
        "is_empty(x, name)",
        "Whether it has no elements.",
        lambda x: torch.tensor(x.numel() == 0),
        lambda x, name: layers.is_empty(x),
    ),
    function(
        "rank(input)",
        "The number of dimensions.",
        lambda input: torch.tensor(input.dim(), dtype=torch.int32),
        layers.rank,
    ),
    function(
        "is_tensor(x)",
        "Whether it is a tensor, or a variable of a program.",
        lambda x: isinstance(x, torch.Tensor),
        lambda x: isinstance(x, Variable),
        gives="bool",
    ),
    function(
        "broadcast_shape(x_shape, y_shape)",
        "The shape that arithmetic of tensors of these two shapes gives.",
        lambda x_shape, y_shape: list(torch.broadcast_shapes(tuple(x_shape), tuple(y_shape))),
        None,
        gives="list[int]",
    ),
]
