"""Initialisers by the shape of a weight: orthogonal matrices, filters that change nothing; and one for everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.nn.base.initializer import BothWays
from fleet_programs.parameters import initializer as static
from fleet_programs.parameters.initializer import NumpyArray
from fleet_programs.program.block import Block
from fleet_programs.program.variable import Variable

__all__ = ["Dirac", "Orthogonal", "set_global_initializer"]


class Orthogonal(BothWays):
    """A random matrix whose rows, or columns if there are fewer, are at right angles and of length `gain`.

    A weight of more dimensions is [first, all others].
    """

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:  # noqa: ARG002
        self.gain = float(gain)

    def fill(self, tensor: torch.Tensor, generator: torch.Generator | None) -> None:
        _check("Orthogonal", tensor.shape, range(2, 99), "2 or more")
        torch.nn.init.orthogonal_(tensor, self.gain, generator)

    def add(self, var: Variable, block: Block) -> None:
        _check("Orthogonal", var.shape, range(2, 99), "2 or more")
        drawn = block.create_var(f"{var.name}@NORMAL", var.shape, var.dtype)
        static.Normal()(drawn, block)
        block.append_op("orthogonalize", {"X": drawn}, {"Out": var.name}, {"gain": self.gain})


class Dirac(BothWays):
    """A filter that gives back its input, as far as there are channels; in each of `groups`."""

    def __init__(self, groups: Any = 1, name: str | None = None) -> None:  # noqa: ARG002
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
            raise UsageError(f"Dirac: groups must be a whole number >= 1, got {groups!r}")
        self.groups = groups

    def fill(self, tensor: torch.Tensor, generator: torch.Generator | None) -> None:  # noqa: ARG002
        _check("Dirac", tensor.shape, range(3, 6), "3, 4 or 5")
        if tensor.shape[0] % self.groups:
            raise UsageError(f"Dirac: groups must divide {tensor.shape[0]} filters, got {self.groups}")
        torch.nn.init.dirac_(tensor, self.groups)

    def add(self, var: Variable, block: Block) -> None:
        values = torch.empty(tuple(var.shape))
        self.fill(values, None)
        NumpyArray(np.asarray(values))(var, block)


def set_global_initializer(weight_init: Any, bias_init: Any = None) -> None:
    """Fill weights, and biases, that nobody gives an initialiser by these from now on; None ends it."""
    static.choose(weight_init, bias_init)


def _check(kind: str, shape: Any, counts: range, text: str) -> None:
    if len(shape) not in counts:
        raise UsageError(f"{kind} fills parameters of {text} dimensions, got shape {list(shape)}")
