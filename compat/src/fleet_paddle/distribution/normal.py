"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fleet_paddle.distribution.base import Distribution, drawn, noise, operand, operands
from fleet_paddle.imperative.functions import table


class Normal(Distribution):
    """Of mean `loc` and standard deviation `scale`: numbers, arrays, tensors or variables that broadcast.

    Normal(0.0, 1.0).log_prob(paddle.to_tensor([0.0]))  # -0.919
    """

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        self._given = loc, scale
        self.loc, self.scale = operands(loc, scale)
        self.name = name or "Normal"

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        """`shape` values for each element of the parameters; with a `seed` the same each time."""
        made = self.loc + noise("gaussian", shape, self.loc + self.scale, seed) * self.scale
        return drawn(made, shape, *self._given)

    def entropy(self) -> Any:
        """log(scale) + log(2 pi e) / 2."""
        return table.log(self.scale + self.loc * 0.0) + (0.5 + 0.5 * math.log(2 * math.pi))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at `value`."""
        distance = (operand(value) - self.loc) / self.scale
        return distance * distance * -0.5 - table.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def kl_divergence(self, other: Any) -> Any:
        """From this one to another normal distribution."""
        self._same_kind(other)
        ratio = self.scale / other.scale
        apart = (self.loc - other.loc) / other.scale
        squared = ratio * ratio
        return (squared + apart * apart - 1.0 - table.log(squared)) * 0.5
