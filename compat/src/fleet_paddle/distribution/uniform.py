"""The uniform distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_paddle.distribution.base import Distribution, drawn, noise, operand, operands
from fleet_paddle.imperative.functions import table


class Uniform(Distribution):
    """Spread evenly over [low, high): numbers, arrays, tensors or variables that broadcast."""

    def __init__(self, low: Any, high: Any, name: str | None = None) -> None:
        self._given = low, high
        self.low, self.high = operands(low, high)
        self.name = name or "Uniform"

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        """`shape` values for each element of the parameters; with a `seed` the same each time."""
        made = self.low + noise("uniform", shape, self.low + self.high, seed) * (self.high - self.low)
        return drawn(made, shape, *self._given)

    def entropy(self) -> Any:
        """log(high - low)."""
        return table.log(self.high - self.low)

    def probs(self, value: Any) -> Any:
        """1 / (high - low) between the two, 0 outside."""
        given = operand(value)
        inside = table.logical_and(given > self.low, given < self.high)
        return table.cast(inside, given.dtype) / (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at `value`: -inf outside."""
        return table.log(self.probs(value))
