"""Functions of each element, of one tensor or of two."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "add_n",
    "conj",
    "imag",
    "increment",
    "pow",
    "real",
    "scale",
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


def _named(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"`torch.{function.__name__}`, which gives our tensors."
    return call


conj = _one(torch.conj)
imag = _one(torch.imag)
real = _one(torch.real)
tanh_ = _one(torch.Tensor.tanh_)

pow = _two(torch.pow)


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
