"""Adam and its relatives: AdamW, Adamax and LAMB.

The count of updates is exact: one for each parameter, or for each row of one whose gradient is sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.strategy.check import RefusedError, Switch
from fleet_programs.optimizer.base import STEP, Accumulator
from fleet_programs.optimizer.declared import FRACTION, Declared, setting
from fleet_programs.program.variable import Parameter, Variable

MOMENTS = (Accumulator("Moment1", "moment1"), Accumulator("Moment2", "moment2"), STEP)


class _Function:
    wants = "a function"

    def __call__(self, value: Any) -> Any:
        if value is not None and not callable(value):
            raise RefusedError(self.wants, value)
        return value


class _AdamLike(Declared):
    """What most share: two betas and an epsilon."""

    keeps = MOMENTS

    learning_rate: float | Variable = setting(default=0.001, check=None, attr=None)
    beta1: float = setting(default=0.9, check=FRACTION)
    beta2: float = setting(default=0.999, check=FRACTION)
    epsilon: float = setting(default=1e-8)


class Adam(_AdamLike):
    """torch's Adam.

    A sparse gradient always changes only its own rows, moments and counts included; `lazy_mode` is accepted either way
    and changes nothing.
    """

    type = "adam"

    lazy_mode: bool = setting(default=False, check=Switch(), attr=None)


class AdamW(_AdamLike):
    """torch's AdamW: weights decay by themselves, not through the gradient.

    With `apply_decay_param_fun` only parameters do for whose name it is true.
    """

    type = "adamw"

    weight_decay: float = setting(default=0.01, attr="coeff")
    apply_decay_param_fun: Callable[[str], bool] | None = setting(default=None, check=_Function(), attr=None)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:
        decays = self.apply_decay_param_fun
        no_decay = {"coeff": 0.0} if decays is not None and not decays(parameter.name) else {}
        return {**super().attrs(parameter), **no_decay}


class Adamax(_AdamLike):
    """torch's Adamax: the largest gradient, which fades, in place of the root of their squares."""

    type = "adamax"
    keeps = (Accumulator("Moment", "moment"), Accumulator("InfNorm", "inf_norm"), STEP)


class Lamb(Declared):
    """Adam whose step follows the norms of weights and direction, for large batches; see `fleet.optim.Lamb`.

    Parameters for which `exclude_from_weight_decay_fn(parameter)` is true have no weight decay.
    """

    type = "lamb"
    keeps = MOMENTS

    learning_rate: float | Variable = setting(default=0.001, check=None, attr=None)
    lamb_weight_decay: float = setting(default=0.01, attr="weight_decay")
    beta1: float = setting(default=0.9, check=FRACTION)
    beta2: float = setting(default=0.999, check=FRACTION)
    epsilon: float = setting(default=1e-6)
    exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = setting(
        default=None, check=_Function(), attr=None
    )

    def attrs(self, parameter: Parameter) -> dict[str, Any]:
        is_excluded = self.exclude_from_weight_decay_fn
        no_decay = {"weight_decay": 0.0} if is_excluded is not None and is_excluded(parameter) else {}
        return {**super().attrs(parameter), **no_decay}
