"""Optimizers that divide by the size of past gradients: Adagrad, decayed Adagrad, RMSProp and FTRL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from fleet.static.optimizer.base import Accumulator, Common, Optimizer
from fleet.static.settings import number, switch
from fleet.static.variable import Parameter, Variable

MOMENT = Accumulator("Moment", "moment")


class Adagrad(Optimizer):
    """s = s + g^2, w = w - lr * g / (sqrt(s) + epsilon)"""

    type = "adagrad"

    def __init__(
        self,
        learning_rate: float | Variable,
        epsilon: float = 1e-6,
        initial_accumulator_value: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, **common)
        self._epsilon = number("Adagrad", "epsilon", epsilon, least=0)
        self._start = number("Adagrad", "initial_accumulator_value", initial_accumulator_value, least=0)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002
        return {"epsilon": self._epsilon, "initial_accumulator_value": self._start}

    def accumulators(self) -> Sequence[Accumulator]:
        return (MOMENT._replace(start=self._start),)


class DecayedAdagrad(Optimizer):
    """s = decay * s + (1 - decay) * g^2, w = w - lr * g / (sqrt(s) + epsilon)"""

    type = "decayed_adagrad"

    def __init__(
        self, learning_rate: float | Variable, decay: float = 0.95, epsilon: float = 1e-6, **common: Unpack[Common]
    ) -> None:
        super().__init__(learning_rate, **common)
        self._decay = number("DecayedAdagrad", "decay", decay, least=0, below=1)
        self._epsilon = number("DecayedAdagrad", "epsilon", epsilon, least=0)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002
        return {"decay": self._decay, "epsilon": self._epsilon}

    def accumulators(self) -> Sequence[Accumulator]:
        return (MOMENT,)


class RMSProp(Optimizer):
    """torch's RMSprop, whose alpha is `rho`: a mean of squares, if `centered` around the mean of gradients."""

    type = "rmsprop"

    def __init__(
        self,
        learning_rate: float | Variable,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        centered: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, **common)
        self._rho = number("RMSProp", "rho", rho, least=0, below=1)
        self._epsilon = number("RMSProp", "epsilon", epsilon, least=0)
        self._momentum = number("RMSProp", "momentum", momentum, least=0)
        self._centered = switch("RMSProp", "centered", centered)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002
        return {
            "decay": self._rho,
            "epsilon": self._epsilon,
            "momentum": self._momentum,
            "centered": self._centered,
        }

    def accumulators(self) -> Sequence[Accumulator]:
        kept = [Accumulator("MeanSquare", "mean_square")]
        if self._momentum > 0:
            kept.append(Accumulator("Moment", "momentum"))
        if self._centered:
            kept.append(Accumulator("MeanGrad", "mean_grad"))
        return kept


class Ftrl(Optimizer):
    """FTRL-Proximal: `l1` makes weights exactly 0; see `fleet.ps.rules.Ftrl`. Accumulators begin at 0."""

    type = "ftrl"

    def __init__(
        self,
        learning_rate: float | Variable,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, **common)
        self._l1 = number("Ftrl", "l1", l1, least=0)
        self._l2 = number("Ftrl", "l2", l2, least=0)
        self._lr_power = number("Ftrl", "lr_power", lr_power, least=-1, most=0)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002
        return {"l1": self._l1, "l2": self._l2, "lr_power": self._lr_power}

    def accumulators(self) -> Sequence[Accumulator]:
        return Accumulator("SquaredAccumulator", "squared"), Accumulator("LinearAccumulator", "linear")
