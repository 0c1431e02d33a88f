"""Activations as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet.imperative.nn.layer import Layer
from fleet.imperative.tensor import Tensor


class _Activation(Layer):
    """A function of each element as a layer; keyword arguments are the function's."""

    function: Callable[..., Tensor]

    def __init__(self, name: str | None = None, **settings: Any) -> None:
        super().__init__(name)
        self._settings = settings

    def forward(self, x: torch.Tensor) -> Tensor:
        return type(self).function(x, **self._settings)


class ReLU(_Activation):
    """x above 0, 0 below."""

    function = staticmethod(F.relu)


class ReLU6(_Activation):
    """x between 0 and 6."""

    function = staticmethod(F.relu6)


class Tanh(_Activation):
    """The hyperbolic tangent."""

    function = staticmethod(F.tanh)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    function = staticmethod(F.sigmoid)


class LogSigmoid(_Activation):
    """The logarithm of sigmoid."""

    function = staticmethod(F.log_sigmoid)


class Softsign(_Activation):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class Silu(_Activation):
    """x * sigmoid(x)."""

    function = staticmethod(F.silu)


class Swish(Silu):
    """x * sigmoid(x)."""


class GELU(_Activation):
    """x times the chance that a normal variable is below x."""

    function = staticmethod(F.gelu)

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__(name, approximate=approximate)


class ELU(_Activation):
    """x above 0, alpha * (exp(x) - 1) below."""

    function = staticmethod(F.elu)

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(name, alpha=alpha)


class LeakyReLU(_Activation):
    """x above 0, negative_slope * x below."""

    function = staticmethod(F.leaky_relu)

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__(name, negative_slope=negative_slope)


class Softplus(_Activation):
    """log(1 + exp(beta * x)) / beta."""

    function = staticmethod(F.softplus)

    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__(name, beta=beta, threshold=threshold)


class Hardsigmoid(_Activation):
    """x / 6 + 0.5, kept between 0 and 1."""

    function = staticmethod(F.hardsigmoid)


class Softmax(_Activation):
    """exp(x) divided by its sum along a dimension."""

    function = staticmethod(F.softmax)

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name, axis=axis)


class LogSoftmax(_Activation):
    """The logarithm of softmax."""

    function = staticmethod(F.log_softmax)

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name, axis=axis)
