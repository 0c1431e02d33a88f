"""Activations: functions of each element, and softmax, which is one of rows."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "elu",
    "elu_",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "maxout",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmax_",
    "softplus",
    "softshrink",
    "softsign",
    "swish",
    "tanh",
    "tanh_",
    "tanhshrink",
    "thresholded_relu",
]


def _simple(function: Callable[..., torch.Tensor]) -> Callable[..., Tensor]:
    def call(x: torch.Tensor, name: str | None = None) -> Any:
        return own(function(x))

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"`{function.__name__}` of each element."
    return call


relu = _simple(torch.relu)
relu6 = _simple(F.relu6)
tanh = _simple(torch.tanh)
sigmoid = _simple(torch.sigmoid)
softsign = _simple(F.softsign)
log_sigmoid = _simple(F.logsigmoid)
silu = _simple(F.silu)
swish = silu
tanhshrink = _simple(F.tanhshrink)
hardswish = _simple(F.hardswish)
relu_ = _simple(torch.relu_)
tanh_ = _simple(torch.tanh_)

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def hardsigmoid(x: torch.Tensor, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> Tensor:
    """slope * x + offset, kept between 0 and 1."""
    return own(torch.clamp(x * slope + offset, 0, 1))


def gelu(x: torch.Tensor, approximate: bool = False, name: str | None = None) -> Tensor:
    """x times the chance that a normal variable is below x."""
    return own(F.gelu(x, approximate="tanh" if approximate else "none"))


def elu(x: torch.Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """x above 0, alpha * (exp(x) - 1) below."""
    return own(F.elu(x, alpha))


def elu_(x: torch.Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """`elu`, in place."""
    return own(F.elu(x, alpha, inplace=True))


def selu(x: torch.Tensor, scale: float = _SELU_SCALE, alpha: float = _SELU_ALPHA, name: str | None = None) -> Tensor:
    """scale * elu(x, alpha)."""
    return own(F.elu(x, alpha) * scale)


def leaky_relu(x: torch.Tensor, negative_slope: float = 0.01, name: str | None = None) -> Tensor:
    """x above 0, negative_slope * x below."""
    return own(F.leaky_relu(x, negative_slope))


def prelu(x: torch.Tensor, weight: torch.Tensor, name: str | None = None) -> Tensor:
    """x above 0, weight * x below; the weight is one number, or one for each channel."""
    return own(F.prelu(x, torch.reshape(weight, (-1,))))


def thresholded_relu(x: torch.Tensor, threshold: float = 1.0, name: str | None = None) -> Tensor:
    """x above the threshold, 0 below."""
    return own(F.threshold(x, threshold, 0.0))


def hardtanh(x: torch.Tensor, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Tensor:
    """x between `min` and `max`."""
    return own(F.hardtanh(x, min, max))


def hardshrink(x: torch.Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x, but 0 where it is no farther from 0 than the threshold."""
    return own(F.hardshrink(x, threshold))


def softshrink(x: torch.Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x, nearer to 0 by the threshold."""
    return own(F.softshrink(x, threshold))


def maxout(x: torch.Tensor, groups: int, axis: int = 1, name: str | None = None) -> Tensor:
    """The greatest of each `groups` neighbouring channels."""
    channels = x.shape[axis]
    if channels % groups:
        raise UsageError(f"maxout: groups must divide the {channels} channels, got {groups}")
    place = axis % x.dim()
    return own(torch.amax(torch.unflatten(x, place, (channels // groups, groups)), place + 1))


def softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20, name: str | None = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta."""
    return own(F.softplus(x, beta, threshold))


def softmax(x: torch.Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """exp(x) divided by its sum along a dimension."""
    return own(torch.softmax(x, axis, dtype=_dtype(dtype)))


def softmax_(x: torch.Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """`softmax`, in place."""
    return own(x.copy_(torch.softmax(x, axis, dtype=_dtype(dtype))))


def log_softmax(x: torch.Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """The logarithm of softmax."""
    return own(torch.log_softmax(x, axis, dtype=_dtype(dtype)))


def _dtype(given: Any) -> torch.dtype | None:
    return None if given is None else dtype_of(given)
