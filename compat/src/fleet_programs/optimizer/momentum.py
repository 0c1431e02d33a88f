"""SGD, SGD with momentum, and momentum with LARS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.strategy.check import RefusedError, Switch
from fleet_programs.optimizer.base import Accumulator
from fleet_programs.optimizer.declared import Declared, setting
from fleet_programs.program.variable import Parameter, Variable

VELOCITY = Accumulator("Velocity", "velocity")


class _Parts:
    wants = "a list of parts of names"

    def __call__(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            raise RefusedError(self.wants, value)
        return tuple(value or ())


class SGD(Declared):
    """w = w - lr * g"""

    type = "sgd"

    learning_rate: float | Variable = setting(default=0.001, check=None, attr=None)


class Momentum(Declared):
    """v = momentum * v + g, w = w - lr * v; with Nesterov's w = w - lr * (g + momentum * v)."""

    type = "momentum"
    keeps = (VELOCITY,)

    momentum: float = setting(attr="mu")
    use_nesterov: bool = setting(default=False, check=Switch())


class LarsMomentum(Declared):
    """Momentum whose rate follows the norms of weights and gradient, for large batches; see `fleet.optim.Lars`.

    Parameters whose name contains one of `exclude_from_weight_decay` have no weight decay.
    """

    type = "lars_momentum"
    keeps = (VELOCITY,)

    momentum: float = setting(attr="mu")
    lars_coeff: float = setting(default=0.001)
    lars_weight_decay: float = setting(default=0.0005)
    exclude_from_weight_decay: Sequence[str] | None = setting(default=None, check=_Parts(), attr=None)
    epsilon: float = setting(default=0.0)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:
        is_excluded = any(part in parameter.name for part in self.exclude_from_weight_decay or ())
        return {**super().attrs(parameter), **({"lars_weight_decay": 0.0} if is_excluded else {})}
