"""The normal distribution of several numbers that do not depend on each other, as version 1.x has it."""

from __future__ import annotations

import math
from typing import Any

from fleet_paddle.distribution.base import Distribution, operands
from fleet_paddle.imperative.functions import table


class MultivariateNormalDiag(Distribution):
    """Of the means `loc`, [k], and a diagonal matrix `scale`, [k, k], whose diagonal holds the variances."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = operands(loc, scale)

    def _variances(self) -> Any:
        return table.sum(self.scale, axis=-1)  # nothing else is in a row of a diagonal matrix

    def entropy(self) -> Any:
        """(k (1 + log 2 pi) + log det scale) / 2."""
        num = self.scale.shape[0]
        return (table.sum(table.log(self._variances())) + num * (1.0 + math.log(2 * math.pi))) * 0.5

    def kl_divergence(self, other: Any) -> Any:
        """From this one to another of the same number of dimensions."""
        self._same_kind(other)
        own, others = self._variances(), other._variances()
        apart = other.loc - self.loc
        terms = own / others + apart * apart / others - 1.0 + table.log(others) - table.log(own)
        return table.sum(terms) * 0.5
