"""Initialisers of parameters, under the names of 2.0; each is one of `fleet_programs.parameters.initializer`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_programs.parameters import initializer as static
from fleet_programs.parameters.initializer import MSRA, Initializer, NumpyArray, Xavier
from fleet_programs.program.block import Block
from fleet_programs.program.variable import Variable

__all__ = [
    "Assign",
    "Bilinear",
    "Constant",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
]

# Two deviations on either side, as the static initialiser of that name.
_TRUNCATED_AT = 2.0


class _OfTensors(Initializer):
    """One that can be called with a tensor too, which then has other values."""

    def __call__(self, var: Any, block: Any = None) -> None:
        if isinstance(var, torch.Tensor):
            fill(var, self)
        else:
            super().__call__(var, block)  # type: ignore[safe-super]


class BothWays(Initializer):
    """One that says itself how a tensor is filled, and what does so in a program."""

    def __call__(self, var: Any, block: Any = None) -> None:
        if isinstance(var, torch.Tensor):
            fill(var, self)
        else:
            self.add(var, block)

    @abstractmethod
    def fill(self, tensor: torch.Tensor, generator: torch.Generator | None) -> None:
        """Give the tensor its first values."""

    @abstractmethod
    def add(self, var: Variable, block: Block) -> None:
        """Add the operators that fill a variable."""


class Bilinear(_OfTensors, static.Bilinear):
    """The weights of a transposed convolution that enlarges an image by linear interpolation."""


class Constant(_OfTensors, static.Constant):
    """Every element is `value`."""


class Normal(_OfTensors, static.Normal):
    """Normally distributed."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None, *, seed: int = 0) -> None:  # noqa: ARG002
        super().__init__(mean, std, seed)


class TruncatedNormal(_OfTensors, static.TruncatedNormal):
    """Normally distributed, none further than two `std` from `mean`."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None, *, seed: int = 0) -> None:  # noqa: ARG002
        super().__init__(mean, std, seed)


class Uniform(_OfTensors, static.Uniform):
    """Spread evenly between `low` and `high`."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None, *, seed: int = 0) -> None:  # noqa: ARG002
        super().__init__(low, high, seed)


class XavierUniform(_OfTensors, Xavier):
    """Glorot's, spread evenly."""

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:  # noqa: ARG002
        super().__init__(True, fan_in, fan_out)


class XavierNormal(_OfTensors, Xavier):
    """Glorot's, normally distributed."""

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:  # noqa: ARG002
        super().__init__(False, fan_in, fan_out)


class KaimingUniform(_OfTensors, MSRA):
    """He's, spread evenly."""

    def __init__(self, fan_in: float | None = None) -> None:
        super().__init__(True, fan_in)


class KaimingNormal(_OfTensors, MSRA):
    """He's, normally distributed."""

    def __init__(self, fan_in: float | None = None) -> None:
        super().__init__(False, fan_in)


class Assign(_OfTensors, NumpyArray):
    """The values of an array, a list or a tensor."""

    def __init__(self, value: Any, name: str | None = None) -> None:  # noqa: ARG002
        super().__init__(value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value)


@torch.no_grad()
def fill(tensor: torch.Tensor, initializer: Initializer) -> None:
    """Give a plain tensor its first values, by torch's random numbers, or by those of the initialiser's own seed."""
    seed = getattr(initializer, "seed", 0)
    generator = torch.Generator(tensor.device).manual_seed(seed) if seed else None
    if isinstance(initializer, BothWays):
        initializer.fill(tensor, generator)
    elif isinstance(initializer, static.Constant):
        tensor.fill_(initializer.value)
    elif isinstance(initializer, static.TruncatedNormal):
        low, high = (initializer.loc + side * _TRUNCATED_AT * initializer.scale for side in (-1, 1))
        torch.nn.init.trunc_normal_(tensor, initializer.loc, initializer.scale, low, high, generator)
    elif isinstance(initializer, static.Normal):
        tensor.normal_(initializer.loc, initializer.scale, generator=generator)
    elif isinstance(initializer, static.Uniform):
        tensor.uniform_(initializer.low, initializer.high, generator=generator)
    elif isinstance(initializer, Xavier | MSRA):
        _spread(tensor, initializer, generator)
    elif isinstance(initializer, NumpyArray):
        if initializer.value.shape != tuple(tensor.shape):
            shapes = f"{list(initializer.value.shape)}, the parameter {list(tensor.shape)}"
            raise UsageError(f"{type(initializer).__name__}: the values have shape {shapes}")
        tensor.copy_(torch.as_tensor(initializer.value))
    elif isinstance(initializer, static.Bilinear):
        tensor.copy_(torch.as_tensor(initializer.values(tensor.shape).copy()))
    else:
        raise NotSupportedError(f"{type(initializer).__name__} fills parameters of programs only; use Assign")


def _spread(tensor: torch.Tensor, initializer: Xavier | MSRA, generator: torch.Generator | None) -> None:
    fan_in, fan_out = _fans(tuple(tensor.shape))
    total = fan_in if initializer.fan_in is None else initializer.fan_in
    if isinstance(initializer, Xavier):
        total += fan_out if initializer.fan_out is None else initializer.fan_out
    if initializer.uniform:
        bound = math.sqrt(6 / total)
        tensor.uniform_(-bound, bound, generator=generator)
    else:
        tensor.normal_(0.0, math.sqrt(2 / total), generator=generator)


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """How many inputs and outputs each unit has: weights are [in, out], filters [out, in, sizes...]."""
    if len(shape) < 2:
        return (float(shape[0]),) * 2 if shape else (1.0, 1.0)
    if len(shape) == 2:
        return float(shape[0]), float(shape[1])
    field = math.prod(shape[2:])
    return float(shape[1] * field), float(shape[0] * field)
