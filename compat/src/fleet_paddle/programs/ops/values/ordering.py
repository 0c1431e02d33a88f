"""Values in order: the middle one, the few at an end, the distinct ones, how many lie where."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.programs.variables.computed import computed
from fleet_programs.definition.dtypes import canonical, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor


@computed("median", "median(x, axis=None, keepdim=False, name)", {"axis": None, "keepdim": False})
def _median(x: T, axis: int | None, keepdim: bool) -> T:
    """The value in the middle, or the mean of the two that are."""
    flat, place = (torch.reshape(x, (-1,)), 0) if axis is None else (x, int(axis))
    ordered = torch.sort(flat, place)[0]
    count = ordered.shape[place]
    middle = torch.narrow(ordered, place, (count - 1) // 2, 2 - count % 2)
    made = torch.mean(middle if middle.is_floating_point() else middle.float(), place, keepdim and axis is not None)
    return torch.reshape(made, [1] * x.dim()) if keepdim and axis is None else made


@computed(
    "top_k_v2",
    attrs={"k": 1, "axis": -1, "largest": True, "sorted": True},
    inputs=("X", "K?"),
    outputs=("Out", "Indices"),
    outs=("Out",),
    values=("K",),
)
def _topk(x: T, number: T | None, k: int, axis: int, largest: bool, sorted: bool) -> Any:
    """The `k` greatest or least values along a dimension, and their places."""
    count = k if number is None else int(number.reshape(-1)[0])
    return tuple(torch.topk(x, count, axis, largest, sorted))


def _infer_histogram(infer: Infer) -> None:
    if infer.attr("bins") < 1:
        raise infer.fail(f"bins must be >= 1, got {infer.attr('bins')}")
    infer.set("Out", [infer.attr("bins")], "int64")


@computed(
    "histogram",
    "histogram(input, bins=100, min=0.0, max=0.0, name)",
    {"bins": 100, "min": 0.0, "max": 0.0},
    wrt=(),
    infer=_infer_histogram,
)
def _histogram(input: T, bins: int, min: float, max: float) -> T:
    """How many values lie in each of `bins` equal parts of [min, max], or of the values' own range if both are 0."""
    return torch.histc(input if input.is_floating_point() else input.double(), bins, min, max).long()


def distinct(x: T, index: bool, inverse: bool, counts: bool, axis: int | None, dtype: torch.dtype) -> Any:
    """The distinct values in order; if asked for, where each is first, which each element is, how many of each."""
    values, which, numbers = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=axis)
    which = which.reshape(-1)
    asked = []
    if index:
        places = torch.arange(len(which), device=x.device)
        asked.append(places.new_full((len(numbers),), len(which)).scatter_reduce(0, which, places, "amin"))
    asked += ([which] if inverse else []) + ([numbers] if counts else [])
    return (values, *(one.to(dtype) for one in asked)) if asked else values


def _infer_unique(infer: Infer) -> None:
    shape, axis, kind = infer.shape("X"), infer.attr("axis"), canonical(infer.attr("dtype"))
    sizes = [-1] if axis is None else [-1 if one == axis % len(shape) else size for one, size in enumerate(shape)]
    infer.set("Out", sizes, infer.dtype("X"))
    for slot in ("Indices", "Index", "Counts"):
        if infer.has(slot):
            infer.set(slot, [-1], kind)


@register(
    "unique",
    inputs=("X",),
    outputs=("Out", "Indices?", "Index?", "Counts?"),
    attrs={"axis": None, "dtype": "int64"},
    infer=_infer_unique,
)
def _unique(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    index, inverse, counts = (bool(op.output(slot)) for slot in ("Indices", "Index", "Counts"))
    axis, dtype = op.attr("axis"), torch_dtype(canonical(op.attr("dtype")))
    return lambda x: distinct(x, index, inverse, counts, axis, dtype)
