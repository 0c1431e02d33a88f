"""Distributions of tensors, or of variables of a program: `paddle.distribution`, and `fluid.layers.distributions`."""

from __future__ import annotations

from fleet_paddle.distribution.base import Distribution
from fleet_paddle.distribution.categorical import Categorical
from fleet_paddle.distribution.diagonal import MultivariateNormalDiag
from fleet_paddle.distribution.normal import Normal
from fleet_paddle.distribution.uniform import Uniform

__all__ = ["Categorical", "Distribution", "MultivariateNormalDiag", "Normal", "Uniform"]
