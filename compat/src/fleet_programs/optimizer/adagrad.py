"""Optimizers that divide by the size of past gradients: Adagrad, decayed Adagrad, RMSProp and FTRL."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.strategy.check import Finite, Switch
from fleet_programs.optimizer.base import Accumulator
from fleet_programs.optimizer.declared import FRACTION, Declared, setting

MOMENT = Accumulator("Moment", "moment")


class Adagrad(Declared):
    """s = s + g^2, w = w - lr * g / (sqrt(s) + epsilon)"""

    type = "adagrad"

    epsilon: float = setting(default=1e-6)
    initial_accumulator_value: float = setting(default=0.0)

    def accumulators(self) -> Sequence[Accumulator]:
        return (MOMENT._replace(start=self.initial_accumulator_value),)


class DecayedAdagrad(Declared):
    """s = decay * s + (1 - decay) * g^2, w = w - lr * g / (sqrt(s) + epsilon)"""

    type = "decayed_adagrad"
    keeps = (MOMENT,)

    decay: float = setting(default=0.95, check=FRACTION)
    epsilon: float = setting(default=1e-6)


class RMSProp(Declared):
    """torch's RMSprop, whose alpha is `rho`: a mean of squares, if `centered` around the mean of gradients."""

    type = "rmsprop"

    rho: float = setting(default=0.95, check=FRACTION, attr="decay")
    epsilon: float = setting(default=1e-6)
    momentum: float = setting(default=0.0)
    centered: bool = setting(default=False, check=Switch())

    def accumulators(self) -> Sequence[Accumulator]:
        kept = [Accumulator("MeanSquare", "mean_square")]
        if self.momentum > 0:
            kept.append(Accumulator("Moment", "momentum"))
        if self.centered:
            kept.append(Accumulator("MeanGrad", "mean_grad"))
        return kept


class Ftrl(Declared):
    """FTRL-Proximal: `l1` makes weights exactly 0; see `fleet.ps.job.rules.Ftrl`. Accumulators begin at 0."""

    type = "ftrl"
    keeps = (Accumulator("SquaredAccumulator", "squared"), Accumulator("LinearAccumulator", "linear"))

    l1: float = setting(default=0.0)
    l2: float = setting(default=0.0)
    lr_power: float = setting(default=-0.5, check=Finite(least=-1, most=0))
