"""Rows of functions that make tensors or variables: of numbers alone as the mode says, or of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fleet_paddle.imperative import creation
from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.programs.variables.sized import range_of
from fleet_paddle.rows.function import function, maker
from fleet_paddle.rows.operators import on_variables
from fleet_paddle.variables import has_variable
from fleet_programs import layers
from fleet_programs.definition.dtypes import canonical
from fleet_programs.program.variable import Variable

_CONSTANT = "shape, dtype=None, name"


def sizes_of(shape: Any) -> Any:
    """A shape for a layer, which may be a variable or hold some; a number is one size."""
    return [shape] if isinstance(shape, int) else shape


def _filled(shape: Any, value: Any, dtype: Any) -> Variable:
    return layers.fill_constant(sizes_of(shape), dtype or "float32", value)


def filled_like(x: Variable, value: float, dtype: Any = None) -> Variable:
    """One value everywhere, in the shape and, unless given, the type of a variable."""
    made: Variable = _full_like(x, value, dtype, None)
    return made


def _range(start: Any, end: Any, step: Any, dtype: Any, name: str | None) -> Variable:
    if end is None:
        start, end = 0, start
    if has_variable((start, end, step)):
        return range_of(start, end, step, dtype, name)
    are_whole = all(isinstance(one, int) for one in (start, end, step))
    return layers.range(start, end, step, dtype or ("int64" if are_whole else "float32"))


def _held(data: Any, dtype: Any, place: Any, stop_gradient: bool) -> Variable:
    """`to_tensor` in a program, which holds the values; a variable stays as it is."""
    made = data if isinstance(data, Variable) else layers.assign(np.asarray(data) if hasattr(data, "shape") else data)
    made = made if dtype is None or made.dtype == canonical(dtype) else layers.cast(made, dtype)
    if made is not data:
        made.stop_gradient = stop_gradient
    return made


def _assign(given: Any, output: Any) -> Any:
    made = as_paddle(given.clone()) if isinstance(given, torch.Tensor) else creation.to_tensor(np.asarray(given))
    if output is None:
        return made
    if isinstance(given, torch.Tensor) and given.requires_grad:
        output.copy_(made)
    elif output.shape == made.shape:
        output.set_value(made)
    else:  # it becomes what is assigned to it
        output.data = made.to(output.dtype)
    return output


_full_like = on_variables("full_like")

FUNCTIONS = [
    maker(
        f"zeros({_CONSTANT})",
        "Zeros.",
        lambda shape, dtype: creation.full(shape, 0, dtype),
        lambda shape, dtype, name: _filled(shape, 0, dtype),
    ),
    maker(
        f"ones({_CONSTANT})",
        "Ones.",
        lambda shape, dtype: creation.full(shape, 1, dtype),
        lambda shape, dtype, name: _filled(shape, 1, dtype),
    ),
    maker(
        "full(shape, fill_value, dtype=None, name)",
        "One value everywhere.",
        creation.full,
        lambda shape, fill_value, dtype, name: _filled(shape, fill_value, dtype),
    ),
    maker(
        f"empty({_CONSTANT})",
        "Memory with whatever was there; a variable of zeros.",
        creation.empty,
        lambda shape, dtype, name: _filled(shape, 0, dtype),
    ),
    function(
        "empty_like(x, dtype=None, name)",
        "Memory with whatever was there, in the shape and, unless given, the type of `x`; a variable of zeros.",
        lambda x, dtype: torch.empty_like(x.detach(), dtype=None if dtype is None else dtype_of(dtype)),
        lambda x, dtype, name: filled_like(x, 0, dtype),
    ),
    maker(
        "arange(start=0, end=None, step=1, dtype=None, name)",
        "From `start`, or 0, up to but not including `end`.",
        creation.arange,
        _range,
    ),
    maker(
        "linspace(start, stop, num, dtype=None, name)",
        "`num` numbers from `start` to `stop`, both included.",
        creation.linspace,
        lambda start, stop, num, dtype, name: layers.linspace(start, stop, num, dtype or "float32"),
    ),
    maker(
        "eye(num_rows, num_columns=None, dtype=None, name)",
        "Ones on the diagonal.",
        creation.eye,
        lambda num_rows, num_columns, dtype, name: layers.eye(num_rows, num_columns, dtype=dtype or "float32"),
    ),
    maker(
        "to_tensor(data, dtype=None, place=None, stop_gradient=True)",
        "A tensor or variable of numbers, lists or an array; gradients flow to it only with `stop_gradient=False`.",
        creation.to_tensor,
        _held,
    ),
    function(
        "assign(input, output=None)",
        "A copy of a tensor, through which gradients flow, or of an array; put into `output`, if there is one.",
        _assign,
        layers.assign,
        gives="Any",
    ),
]
