"""Initialisers: operators of the startup program that give parameters their first values.

A random value depends on the seed, the parameter's name and the row alone, never on the order of operators, so that one
process and the servers of a cluster begin with the same numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.program.block import Block
from fleet_programs.program.variable import Variable


class Initializer(ABC):
    """Adds the operator that fills a variable to a block."""

    @abstractmethod
    def __call__(self, var: Variable, block: Block) -> None:
        """Add the operator."""


class Constant(Initializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = float(value)

    def __call__(self, var: Variable, block: Block) -> None:
        attrs = {"shape": list(var.shape), "value": self.value, "dtype": var.dtype}
        block.append_op("fill_constant", {}, {"Out": var.name}, attrs)


class Uniform(Initializer):
    """Uniformly distributed between `low` and `high`."""

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0) -> None:
        if not low < high:
            raise UsageError(f"Uniform: low must be below high, got {low} and {high}; Constant gives one value")
        self.low, self.high, self.seed = float(low), float(high), int(seed)

    def __call__(self, var: Variable, block: Block) -> None:
        _random(var, block, "uniform_random", {"min": self.low, "max": self.high}, self.seed)


class Normal(Initializer):
    """Normally distributed."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        if not scale > 0:
            raise UsageError(f"Normal: scale must be > 0, got {scale}; Constant gives one value")
        self.loc, self.scale, self.seed = float(loc), float(scale), int(seed)

    def __call__(self, var: Variable, block: Block) -> None:
        _random(var, block, "gaussian_random", {"mean": self.loc, "std": self.scale}, self.seed)


class TruncatedNormal(Normal):
    """Normally distributed, none further than two `scale` from `loc`."""

    def __call__(self, var: Variable, block: Block) -> None:
        _random(var, block, "truncated_gaussian_random", {"mean": self.loc, "std": self.scale}, self.seed)


class Xavier(Initializer):
    """Glorot's: a spread that keeps the size of values and gradients from layer to layer."""

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ) -> None:
        self.uniform, self.fan_in, self.fan_out, self.seed = uniform, fan_in, fan_out, seed

    def __call__(self, var: Variable, block: Block) -> None:
        fan_in, fan_out = fans(var)
        total = (self.fan_in if self.fan_in is not None else fan_in) + (
            self.fan_out if self.fan_out is not None else fan_out
        )
        if self.uniform:
            Uniform(-math.sqrt(6 / total), math.sqrt(6 / total), self.seed)(var, block)
        else:
            Normal(0.0, math.sqrt(2 / total), self.seed)(var, block)


class MSRA(Initializer):
    """He's: for layers followed by relu."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        self.uniform, self.fan_in, self.seed = uniform, fan_in, seed

    def __call__(self, var: Variable, block: Block) -> None:
        fan_in = self.fan_in if self.fan_in is not None else fans(var)[0]
        if self.uniform:
            Uniform(-math.sqrt(6 / fan_in), math.sqrt(6 / fan_in), self.seed)(var, block)
        else:
            Normal(0.0, math.sqrt(2 / fan_in), self.seed)(var, block)


class Bilinear(Initializer):
    """The weights of a transposed convolution that enlarges an image by linear interpolation."""

    def __call__(self, var: Variable, block: Block) -> None:
        NumpyArray(self.values(var.shape))(var, block)

    @staticmethod
    def values(shape: Sequence[int]) -> NDArray[np.float64]:
        """The weights of a filter; UsageError for a shape that is none of an image's."""
        if len(shape) != 4 or shape[2] != shape[3]:
            raise UsageError(f"Bilinear needs a parameter of shape [n, m, k, k], got {list(shape)}")
        factor = math.ceil(shape[3] / 2)
        center = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        line = 1 - np.abs(np.arange(shape[3]) / factor - center)
        return np.broadcast_to(np.outer(line, line), tuple(shape))


class NumpyArray(Initializer):
    """The values of an array."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    def __call__(self, var: Variable, block: Block) -> None:
        if self.value.shape != tuple(var.shape):
            raise UsageError(f"parameter {var.name!r} has shape {list(var.shape)}, its array {list(self.value.shape)}")
        values = self.value.astype(var.dtype).ravel().tolist()
        attrs = {"shape": list(var.shape), "dtype": var.dtype, "values": values}
        block.append_op("assign_value", {}, {"Out": var.name}, attrs)


_chosen: dict[str, Initializer] = {}


def choose(weight: Initializer | None, bias: Initializer | None) -> None:
    """Initialisers of weights and biases that nobody gives one, from now on; None for the layers' own again."""
    both = (("weight", weight), ("bias", bias))
    for name, one in both:
        if one is not None and not isinstance(one, Initializer):
            raise UsageTypeError(f"the initializer of every {name} must be one of static.initializer, got {one!r}")
    _chosen.clear()
    _chosen.update({name: one for name, one in both if one is not None})


def first_choice(default: Initializer | None, is_bias: bool, trainable: bool = True) -> Initializer:
    """What fills a parameter without an initialiser of its own: the one chosen for all, else the layer's `default`.

    What is not trained, such as the mean of a batch norm, begins as its layer says.
    """
    everyones = _chosen.get("bias" if is_bias else "weight") if trainable else None
    return everyones or default or (Constant(0.0) if is_bias else Xavier())


def fans(var: Variable) -> tuple[float, float]:
    """How many inputs and outputs each unit of a parameter has."""
    shape = var.shape
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    if len(shape) == 2:
        return float(shape[0]), float(shape[1])
    field = math.prod(shape[2:])
    return float(shape[1] * field), float(shape[0] * field)


def _random(var: Variable, block: Block, type: str, attrs: dict[str, float], seed: int) -> None:
    block.append_op(type, {}, {"Out": var.name}, {"shape": list(var.shape), "dtype": var.dtype, "seed": seed, **attrs})
