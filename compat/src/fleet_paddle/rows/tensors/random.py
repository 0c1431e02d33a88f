"""Rows of functions that make random tensors, from torch's generator, or variables that differ from run to run."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative import creation
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.rows.function import maker
from fleet_paddle.rows.tensors.making import sizes_of
from fleet_programs import layers
from fleet_programs.definition.dtypes import canonical
from fleet_programs.program.variable import Variable

_NORMAL = "Normally distributed numbers of mean 0 and deviation 1."


def _standard(shape: Any, dtype: Any) -> torch.Tensor:
    return torch.randn(creation.sizes(shape), dtype=dtype_of(dtype), device=current())


def _standard_of(shape: Any, dtype: Any, name: str | None) -> Variable:
    return layers.gaussian_random(sizes_of(shape), dtype=dtype or "float32", name=name)


def _normal(mean: Any, std: Any, shape: Any) -> torch.Tensor:
    given = [one for one in (mean, std) if isinstance(one, torch.Tensor)]
    if given:
        if shape is not None:
            raise UsageError("normal: shape must be left out beside a tensor, whose shape the numbers have")
        size = torch.broadcast_shapes(*(one.shape for one in given))
        made = torch.randn(size, dtype=given[0].dtype, device=given[0].device)
    else:
        made = _standard((1,) if shape is None else shape, None)
    drawn: torch.Tensor = made * std + mean
    return drawn


def _normal_of(mean: float, std: float, shape: Any, name: str | None) -> Variable:
    return layers.gaussian_random([1] if shape is None else sizes_of(shape), mean, std, name=name)


def _uniform_of(shape: Any, dtype: Any, least: float, most: float, seed: int, name: str | None) -> Variable:
    return layers.uniform_random(sizes_of(shape), dtype or "float32", least, most, seed, name)


def _whole(low: int, high: int | None, shape: Any, dtype: Any) -> torch.Tensor:
    least, most = (0, low) if high is None else (low, high)
    return torch.randint(least, most, creation.sizes(shape), dtype=dtype_of(dtype, "int64"), device=current())


def _mixed_of(n: int, dtype: Any, name: str | None) -> Variable:
    order = layers.argsort(layers.uniform_random([n], "float32", 0.0, 1.0))[1]
    return order if canonical(dtype) == "int64" else layers.cast(order, dtype)


FUNCTIONS = [
    maker("randn(shape, dtype=None, name)", _NORMAL, _standard, _standard_of),
    maker("standard_normal(shape, dtype=None, name)", _NORMAL, _standard, _standard_of),
    maker(
        "normal(mean=0.0, std=1.0, shape=None, name)",
        "Normally distributed numbers; where the mean or the deviation is a tensor, one for each of its elements.",
        _normal,
        _normal_of,
    ),
    maker(
        "uniform(shape, dtype=None, min=-1.0, max=1.0, seed=0, name)",
        "Numbers spread evenly over [min, max); with a `seed` the same each time.",
        creation.uniform,
        _uniform_of,
    ),
    maker(
        "rand(shape, dtype=None, name)",
        "Numbers spread evenly over [0, 1).",
        lambda shape, dtype: creation.uniform(shape, dtype, 0.0, 1.0),
        lambda shape, dtype, name: _uniform_of(shape, dtype, 0.0, 1.0, 0, name),
    ),
    maker(
        "randint(low=0, high=None, shape=(1,), dtype=None, name)",
        "Whole numbers from `low` up to but not including `high`; with one bound, from 0 up to it.",
        _whole,
        lambda low, high, shape, dtype, name: layers.randint(low, high, sizes_of(shape), dtype or "int64", name=name),
    ),
    maker(
        "randperm(n, dtype='int64', name)",
        "The numbers from 0 to n - 1, mixed.",
        lambda n, dtype: torch.randperm(n, dtype=dtype_of(dtype), device=current()),
        _mixed_of,
    ),
]
