"""Functions that make random tensors; they draw from torch's generator, which `seed` begins anew."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import Size, dtype_of, sizes
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "bernoulli",
    "multinomial",
    "normal",
    "rand",
    "randint",
    "randn",
    "randperm",
    "seed",
    "standard_normal",
    "uniform",
]


def seed(value: int) -> torch.Generator:
    """Where random numbers begin, of tensors and of layers made later."""
    return torch.manual_seed(value)


def randn(shape: Size, dtype: Any = None, name: str | None = None) -> Tensor:
    """Normally distributed numbers of mean 0 and deviation 1."""
    return own(torch.randn(sizes(shape), dtype=dtype_of(dtype), device=current()))


standard_normal = randn


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Size | None = None, name: str | None = None) -> Tensor:
    """Normally distributed numbers; where the mean or the deviation is a tensor, one for each of its elements."""
    given = [one for one in (mean, std) if isinstance(one, torch.Tensor)]
    if given:
        if shape is not None:
            raise UsageError("normal: shape must be left out beside a tensor, whose shape the numbers have")
        size = torch.broadcast_shapes(*(one.shape for one in given))
        made = torch.randn(size, dtype=given[0].dtype, device=given[0].device)
    else:
        made = randn((1,) if shape is None else shape)
    drawn: torch.Tensor = made * std + mean
    return own(drawn)


def rand(shape: Size, dtype: Any = None, name: str | None = None) -> Tensor:
    """Numbers spread evenly over [0, 1)."""
    return uniform(shape, dtype, 0.0, 1.0, name=name)


def uniform(
    shape: Size,
    dtype: Any = None,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Tensor:
    """Numbers spread evenly over [min, max); with a `seed` the same each time."""
    generator = torch.Generator(current()).manual_seed(seed) if seed else None
    made = torch.empty(sizes(shape), dtype=dtype_of(dtype), device=current())
    return own(made.uniform_(min, max, generator=generator))


def randint(
    low: int = 0,
    high: int | None = None,
    shape: Size = (1,),
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Whole numbers from `low` up to but not including `high`; with one bound, from 0 up to it."""
    least, most = (0, low) if high is None else (low, high)
    made = torch.randint(least, most, sizes(shape), dtype=dtype_of(dtype, "int64"), device=current())
    return own(made)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """The numbers from 0 to n - 1, mixed."""
    return own(torch.randperm(n, dtype=dtype_of(dtype), device=current()))


def bernoulli(x: torch.Tensor, name: str | None = None) -> Tensor:
    """1 with the chance that `x` gives, else 0."""
    return own(torch.bernoulli(x))


def multinomial(x: torch.Tensor, num_samples: int = 1, replacement: bool = False, name: str | None = None) -> Tensor:
    """Places drawn with the chances in a row: `num_samples` of each, the same one twice only with `replacement`."""
    return own(torch.multinomial(x, num_samples, replacement))
