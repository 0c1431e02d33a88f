"""Layers that make fewer numbers of many. A result without dimensions has shape [1]."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = ["mean", "reduce_all", "reduce_any", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum"]

Dim = int | Sequence[int] | None


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements."""
    layer = Layer("mean", name)
    x = layer.variable(x, "x")
    return layer.apply("mean", {"X": x}, {}, x.dtype)


def _reduce(type: str, input: Variable, dim: Dim, keep_dim: bool, name: str | None) -> Variable:
    layer = Layer(type, name)
    input = layer.variable(input)
    dims = [] if dim is None else [dim] if isinstance(dim, int) else [int(one) for one in dim]
    attrs = {"dim": dims, "keep_dim": bool(keep_dim), "reduce_all": not dims}
    return layer.apply(type, {"X": input}, attrs, input.dtype)


def reduce_sum(input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The sum over some dimensions, or over all."""
    return _reduce("reduce_sum", input, dim, keep_dim, name)


def reduce_mean(input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The mean over some dimensions, or over all."""
    return _reduce("reduce_mean", input, dim, keep_dim, name)


def reduce_max(input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The largest element over some dimensions, or over all; equal ones share the gradient."""
    return _reduce("reduce_max", input, dim, keep_dim, name)


def reduce_min(input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The smallest element over some dimensions, or over all; equal ones share the gradient."""
    return _reduce("reduce_min", input, dim, keep_dim, name)


def reduce_prod(input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The product over some dimensions, or over all."""
    return _reduce("reduce_prod", input, dim, keep_dim, name)


def reduce_all(input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Whether all are true, over some dimensions or over all."""
    return _reduce("reduce_all", input, dim, keep_dim, name)


def reduce_any(input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Whether one is true, over some dimensions or over all."""
    return _reduce("reduce_any", input, dim, keep_dim, name)
