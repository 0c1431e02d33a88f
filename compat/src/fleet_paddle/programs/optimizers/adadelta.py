"""Adadelta for programs."""

from __future__ import annotations

from fleet_programs.optimizer.base import Accumulator
from fleet_programs.optimizer.declared import FRACTION, Declared, setting


class Adadelta(Declared):
    """s = rho * s + (1 - rho) * g^2, d = g * sqrt((u + epsilon) / (s + epsilon)), w = w - d

    u is the mean of d^2, as s is that of g^2. The learning rate is taken and has no part in it: so it is in
    PaddlePaddle up to 2.2.
    """

    type = "adadelta"
    keeps = (Accumulator("AvgSquaredGrad", "_avg_squared_grad"), Accumulator("AvgSquaredUpdate", "_avg_squared_update"))

    epsilon: float = setting(default=1e-6)
    rho: float = setting(default=0.95, check=FRACTION)
