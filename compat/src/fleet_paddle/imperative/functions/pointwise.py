"""Functions of each element, of one tensor or of two."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet_paddle.imperative.tensor import Tensor, fresh, own

__all__ = [
    "add",
    "add_n",
    "clip",
    "conj",
    "divide",
    "equal",
    "floor_divide",
    "greater_equal",
    "greater_than",
    "imag",
    "increment",
    "isfinite",
    "isinf",
    "isnan",
    "less_equal",
    "less_than",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "pow",
    "real",
    "scale",
    "sign",
    "subtract",
    "tan",
    "tanh_",
]


def _one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `x`."""

    def call(x: Any, name: str | None = None) -> Any:
        return own(function(x))

    return _named(call, function)


def _two(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function of `x` and `y`."""

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        return own(function(x, y))

    return _named(call, function)


def _aligned(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function of `x` and `y`, the dimensions of `y` being those of `x` from `axis` on, or the last ones for -1."""

    def call(x: Any, y: Any, axis: int = -1, name: str | None = None) -> Any:
        if axis != -1:
            y = y.reshape((*y.shape, *[1] * (x.dim() - axis % x.dim() - y.dim())))
        return own(function(x, y))

    return _named(call, function)


def _logical(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function of `x` and `y` that can put its result into `out`."""

    def call(x: Any, y: Any, out: torch.Tensor | None = None, name: str | None = None) -> Any:
        return own(function(x, y) if out is None else function(x, y, out=out))

    return _named(call, function)


def _named(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"`torch.{function.__name__}`, which gives our tensors."
    return call


conj = _one(torch.conj)
imag = _one(torch.imag)
isfinite = _one(torch.isfinite)
isinf = _one(torch.isinf)
isnan = _one(torch.isnan)
log10 = _one(torch.log10)
log2 = _one(torch.log2)
real = _one(torch.real)
sign = _one(torch.sign)
tan = _one(torch.tan)
tanh_ = _one(torch.Tensor.tanh_)

add = _two(torch.add)
divide = _two(torch.divide)
equal = _two(torch.eq)
floor_divide = _two(torch.floor_divide)
greater_equal = _two(torch.greater_equal)
greater_than = _two(torch.greater)
less_equal = _two(torch.less_equal)
less_than = _two(torch.less)
mod = _two(torch.remainder)
not_equal = _two(torch.not_equal)
pow = _two(torch.pow)
subtract = _two(torch.subtract)

maximum = _aligned(torch.maximum)
minimum = _aligned(torch.minimum)
multiply = _aligned(torch.multiply)

logical_and = _logical(torch.logical_and)
logical_or = _logical(torch.logical_or)
logical_xor = _logical(torch.logical_xor)


def logical_not(x: torch.Tensor, out: torch.Tensor | None = None, name: str | None = None) -> Tensor:
    """Where `x` is False or 0."""
    return own(torch.logical_not(x) if out is None else torch.logical_not(x, out=out))


def clip(x: torch.Tensor, min: Any = None, max: Any = None, name: str | None = None) -> Tensor:
    """Every element between `min` and `max`."""
    return fresh(x if min is None and max is None else torch.clamp(x, min, max), x)


def scale(
    x: torch.Tensor,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """scale * x + bias, or scale * (x + bias); then `act`, the name of one of `nn.functional`."""
    made: torch.Tensor = own(x * scale + bias if bias_after_scale else (x + bias) * scale)
    if act is not None:
        from fleet_paddle.imperative.nn import functional

        made = getattr(functional, act)(made)
    return own(made)


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of several tensors of one shape."""
    several = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
    made = several[0].clone()
    for one in several[1:]:
        made = made + one
    return own(made)


def increment(x: torch.Tensor, value: float = 1.0, name: str | None = None) -> Tensor:
    """x + value, in place."""
    return own(x.add_(value))
