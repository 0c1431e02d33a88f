"""Activations as layers."""

from __future__ import annotations

from typing import Any

import torch

from fleet.static.initializer import Constant
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.nn.of_function import FunctionLayer
from fleet_paddle.imperative.tensor import Tensor

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Maxout",
    "PReLU",
    "ReLU",
    "ReLU6",
    "Sigmoid",
    "Silu",
    "Softmax",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Swish",
    "Tanh",
    "Tanhshrink",
    "ThresholdedReLU",
]


class ReLU(FunctionLayer):
    """x above 0, 0 below."""

    function = staticmethod(F.relu)


class ReLU6(FunctionLayer):
    """x between 0 and 6."""

    function = staticmethod(F.relu6)


class Tanh(FunctionLayer):
    """The hyperbolic tangent."""

    function = staticmethod(F.tanh)


class Sigmoid(FunctionLayer):
    """1 / (1 + exp(-x))."""

    function = staticmethod(F.sigmoid)


class LogSigmoid(FunctionLayer):
    """The logarithm of sigmoid."""

    function = staticmethod(F.log_sigmoid)


class Softsign(FunctionLayer):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class Silu(FunctionLayer):
    """x * sigmoid(x)."""

    function = staticmethod(F.silu)


class Swish(FunctionLayer):
    """x * sigmoid(x)."""

    function = staticmethod(F.swish)


class Tanhshrink(FunctionLayer):
    """x - tanh(x)."""

    function = staticmethod(F.tanhshrink)


class Hardswish(FunctionLayer):
    """x * hardsigmoid(x)."""

    function = staticmethod(F.hardswish)


class GELU(FunctionLayer):
    """x times the chance that a normal variable is below x."""

    function = staticmethod(F.gelu)


class ELU(FunctionLayer):
    """x above 0, alpha * (exp(x) - 1) below."""

    function = staticmethod(F.elu)


class SELU(FunctionLayer):
    """scale * elu(x, alpha)."""

    function = staticmethod(F.selu)


class LeakyReLU(FunctionLayer):
    """x above 0, negative_slope * x below."""

    function = staticmethod(F.leaky_relu)


class ThresholdedReLU(FunctionLayer):
    """x above the threshold, 0 below."""

    function = staticmethod(F.thresholded_relu)


class Softplus(FunctionLayer):
    """log(1 + exp(beta * x)) / beta."""

    function = staticmethod(F.softplus)


class Hardtanh(FunctionLayer):
    """x between `min` and `max`."""

    function = staticmethod(F.hardtanh)


class Hardshrink(FunctionLayer):
    """x, but 0 where it is no farther from 0 than the threshold."""

    function = staticmethod(F.hardshrink)


class Softshrink(FunctionLayer):
    """x, nearer to 0 by the threshold."""

    function = staticmethod(F.softshrink)


class Maxout(FunctionLayer):
    """The greatest of each `groups` neighbouring channels."""

    function = staticmethod(F.maxout)


class Hardsigmoid(FunctionLayer):
    """x / 6 + 0.5, kept between 0 and 1."""

    function = staticmethod(F.hardsigmoid)


class Softmax(FunctionLayer):
    """exp(x) divided by its sum along a dimension."""

    function = staticmethod(F.softmax)


class LogSoftmax(FunctionLayer):
    """The logarithm of softmax."""

    function = staticmethod(F.log_softmax)


class PReLU(Layer):
    """x above 0, a trained share of it below: one for all, or one for each channel."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, weight_attr: Any = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.prelu(x, self._weight)
