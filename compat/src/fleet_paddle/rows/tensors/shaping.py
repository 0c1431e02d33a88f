"""Rows of functions that change shape and number, and are no single operator."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.imperative.tensor import fresh
from fleet_paddle.programs.variables import sized
from fleet_paddle.programs.variables.computed import add
from fleet_paddle.rows.function import function
from fleet_paddle.rows.operators import on_variables
from fleet_paddle.rows.tensors.making import filled_like
from fleet_paddle.variables import has_variable
from fleet_programs import layers
from fleet_programs.operators.common.making import integers
from fleet_programs.operators.tensors.expanding import expanded
from fleet_programs.operators.tensors.shaping import in_shape, squeezed, unsqueezed
from fleet_programs.program.variable import Variable

_FLAT = "start_axis=0, stop_axis=-1, name"


def _split(x: torch.Tensor, num_or_sections: Any, axis: Any) -> Any:
    axis = int(axis)
    length = _SIZE(x, axis)
    if isinstance(num_or_sections, int):
        if num_or_sections < 1 or length % num_or_sections:
            raise UsageError(f"split: {num_or_sections} does not divide {length}, the size of dimension {axis}")
        parts: Any = length // num_or_sections
    else:
        parts = integers(num_or_sections)
        known = sum(one for one in parts if one >= 0)
        parts = [length - known if one < 0 else one for one in parts]
    return list(_SPLIT(x, parts, axis))


def _unstack(x: torch.Tensor, axis: int, num: int | None) -> list[torch.Tensor]:
    made = list(torch.unbind(x, axis))
    if num is not None and num != len(made):
        raise UsageError(f"unstack: num must be {len(made)}, the size of dimension {axis}, got {num}")
    return made


def _turned(x: Variable, name: str | None) -> Variable:
    if x.ndim > 2:
        raise UsageError(f"t: input must have at most 2 dimensions, got shape {list(x.shape)}; use transpose")
    return layers.transpose(x, [1, 0], name) if x.ndim == 2 else x


def _flatten(x: Variable, start_axis: int, stop_axis: int, name: str | None) -> Variable:
    first, last = start_axis % x.ndim, stop_axis % x.ndim
    after = list(x.shape[last + 1 :])
    if any(size < 0 for size in after):
        made: Variable = add("flatten_contiguous_range", {"X": x}, {"start_axis": first, "stop_axis": last}, name)
        return made
    return layers.reshape(x, [0] * first + [-1, *after], name=name)


def _tile(x: Variable, repeat_times: Any, name: str | None) -> Variable:
    if has_variable([repeat_times, *(repeat_times if isinstance(repeat_times, list | tuple) else ())]):
        made: Variable = sized.FIRST["expand"]({"x": x, "expand_times": repeat_times, "name": name})
        return made
    times = list(repeat_times)
    missing = len(times) - x.ndim
    wide = layers.unsqueeze(x, list(range(missing))) if missing > 0 else x
    return layers.expand(wide, [1] * -missing + times, name)


def _expand_as(x: Variable, y: Variable, name: str | None) -> Variable:
    return layers.elementwise_add(filled_like(y, 0, x.dtype), x, name=name)


def _become(x: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """Give `x` the shape of a view of it."""
    return x.as_strided_(tuple(view.shape), view.stride(), view.storage_offset())


_SPLIT: Any = torch.Tensor.split
_SIZE: Any = torch.Tensor.size

FUNCTIONS = [
    function(
        "cast(x, dtype)", "The values as another type.", lambda x, dtype: fresh(x.to(dtype_of(dtype)), x), layers.cast
    ),
    function(
        "split(x, num_or_sections, axis=0, name)",
        "As many equal parts, or parts of these sizes, one of which may be -1 for the rest.",
        _split,
        layers.split,
        gives="Any",
    ),
    function("chunk(x, chunks, axis=0, name)", "As many equal parts.", _split, layers.split, gives="Any"),
    function(
        "unbind(input, axis=0)",
        "The entries along a dimension.",
        lambda input, axis: list(torch.unbind(input, axis)),
        layers.unstack,
        gives="Any",
    ),
    function(
        "unstack(x, axis=0, num=None)",
        "The entries along a dimension; `num` is how many there are, where a script says so.",
        _unstack,
        layers.unstack,
        gives="Any",
    ),
    function("t(input, name)", "A matrix with rows as columns; a vector stays.", torch.t, _turned),
    function(
        f"flatten(x, {_FLAT})",
        "The dimensions from one to another as one.",
        lambda x, start_axis, stop_axis: fresh(torch.flatten(x, start_axis, stop_axis), x),
        _flatten,
    ),
    function(
        "tile(x, repeat_times, name)",
        "As many copies along each dimension; more numbers than dimensions make new ones.",
        lambda x, repeat_times: torch.tile(x, integers(repeat_times)),
        _tile,
    ),
    function(
        "expand_as(x, y, name)",
        "As if copied along dimensions of size 1, into the shape of `y`.",
        lambda x, y: expanded(x, y.shape),
        _expand_as,
        num_operands=2,
    ),
    function(
        "reshape_(x, shape, name)",
        "`reshape`, in place.",
        lambda x, shape: _become(x, x.view(tuple(in_shape(x, shape).shape))),
        lambda x, shape, name: layers.reshape(x, shape, name=name),
    ),
    function(
        f"flatten_(x, {_FLAT})",
        "`flatten`, in place.",
        lambda x, start_axis, stop_axis: _become(x, torch.flatten(x, start_axis, stop_axis)),
        _flatten,
    ),
    function(
        "squeeze_(x, axis=None, name)",
        "`squeeze`, in place.",
        lambda x, axis: _become(x, squeezed(x, axis)),
        on_variables("squeeze"),
    ),
    function(
        "unsqueeze_(x, axis, name)",
        "`unsqueeze`, in place.",
        lambda x, axis: _become(x, unsqueezed(x, axis)),
        on_variables("unsqueeze"),
    ),
]
