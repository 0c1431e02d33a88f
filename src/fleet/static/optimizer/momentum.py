"""SGD, SGD with momentum, and momentum with LARS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from fleet.errors import UsageTypeError
from fleet.static.optimizer.base import Accumulator, Common, Optimizer
from fleet.static.settings import number, switch
from fleet.static.variable import Parameter, Variable

VELOCITY = Accumulator("Velocity", "velocity")


class SGD(Optimizer):
    """w = w - lr * g"""

    type = "sgd"

    def __init__(self, learning_rate: float | Variable = 0.001, **common: Unpack[Common]) -> None:
        super().__init__(learning_rate, **common)


class Momentum(Optimizer):
    """v = momentum * v + g, w = w - lr * v; with Nesterov's w = w - lr * (g + momentum * v)."""

    type = "momentum"

    def __init__(
        self, learning_rate: float | Variable, momentum: float, use_nesterov: bool = False, **common: Unpack[Common]
    ) -> None:
        super().__init__(learning_rate, **common)
        self._momentum = number("Momentum", "momentum", momentum, least=0)
        self._use_nesterov = switch("Momentum", "use_nesterov", use_nesterov)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002
        return {"mu": self._momentum, "use_nesterov": self._use_nesterov}

    def accumulators(self) -> Sequence[Accumulator]:
        return (VELOCITY,)


class LarsMomentum(Optimizer):
    """Momentum whose rate follows the norms of weights and gradient, for large batches; see `fleet.optim.Lars`.

    Parameters whose name contains one of `exclude_from_weight_decay` have no weight decay.
    """

    type = "lars_momentum"

    def __init__(
        self,
        learning_rate: float | Variable,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        exclude_from_weight_decay: Sequence[str] | None = None,
        epsilon: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, **common)
        own = "LarsMomentum"
        self._attrs = {
            "mu": number(own, "momentum", momentum, least=0),
            "lars_coeff": number(own, "lars_coeff", lars_coeff, least=0),
            "lars_weight_decay": number(own, "lars_weight_decay", lars_weight_decay, least=0),
            "epsilon": number(own, "epsilon", epsilon, least=0),
        }
        if isinstance(exclude_from_weight_decay, str):
            raise UsageTypeError(
                f"{own}: exclude_from_weight_decay must be a list of parts of names, got {exclude_from_weight_decay!r}"
            )
        self._excluded = tuple(exclude_from_weight_decay or ())

    def attrs(self, parameter: Parameter) -> dict[str, Any]:
        if any(part in parameter.name for part in self._excluded):
            return {**self._attrs, "lars_weight_decay": 0.0}
        return dict(self._attrs)

    def accumulators(self) -> Sequence[Accumulator]:
        return (VELOCITY,)
