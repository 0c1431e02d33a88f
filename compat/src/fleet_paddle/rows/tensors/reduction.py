"""Rows of functions that make fewer numbers of many and are no single operator."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.rows.function import function
from fleet_programs import layers
from fleet_programs.layers.choosing import size
from fleet_programs.program.variable import Variable


def _axes(axis: Any) -> Any:
    """One dimension or several, as torch wants them; None stays."""
    if axis is None or isinstance(axis, int):
        return axis
    return tuple(int(one) for one in axis) if isinstance(axis, list | tuple) else int(axis)


def _spread(x: Variable, axis: Any, unbiased: bool, keepdim: bool, name: str | None) -> Variable:
    apart = layers.square(x - layers.reduce_mean(x, axis, True))
    if not unbiased:
        return layers.reduce_mean(apart, axis, keepdim, name)
    count = layers.reduce_sum(layers.ones_like(x), axis, keepdim)
    return layers.elementwise_div(layers.reduce_sum(apart, axis, keepdim), count - 1.0, name=name)


def _mean(x: Variable, axis: Any, keepdim: bool, name: str | None) -> Variable:
    return layers.mean(x, name) if axis is None and not keepdim else layers.reduce_mean(x, axis, keepdim, name)


FUNCTIONS = [
    function(
        "mean(x, axis=None, keepdim=False, name)",
        "The mean over some dimensions, or over all.",
        lambda x, axis, keepdim: torch.mean(x, _axes(axis), keepdim),
        _mean,
    ),
    function("numel(x, name)", "The number of elements.", lambda x: torch.tensor(x.numel()), lambda x, name: size(x)),
    function(
        "var(x, axis=None, unbiased=True, keepdim=False, name)",
        "The variance: of a sample, or of all there is without `unbiased`.",
        lambda x, axis, unbiased, keepdim: torch.var(x, _axes(axis), correction=int(unbiased), keepdim=keepdim),
        _spread,
    ),
    function(
        "std(x, axis=None, unbiased=True, keepdim=False, name)",
        "The standard deviation: of a sample, or of all there is without `unbiased`.",
        lambda x, axis, unbiased, keepdim: torch.std(x, _axes(axis), correction=int(unbiased), keepdim=keepdim),
        lambda x, axis, unbiased, keepdim, name: layers.sqrt(_spread(x, axis, unbiased, keepdim, None), name),
    ),
]
