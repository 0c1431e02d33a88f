"""Adam and its relatives: AdamW, Adamax and LAMB.

The count of updates is exact: one for each parameter, or for each row of one whose gradient is sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from fleet.errors import UsageTypeError
from fleet.static.optimizer.base import STEP, Accumulator, Common, Optimizer
from fleet.static.settings import number, switch
from fleet.static.variable import Parameter, Variable

MOMENTS = (Accumulator("Moment1", "moment1"), Accumulator("Moment2", "moment2"), STEP)


class _AdamLike(Optimizer):
    """What they share: two betas and an epsilon."""

    def __init__(
        self,
        learning_rate: float | Variable,
        beta1: float,
        beta2: float,
        epsilon: float,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, **common)
        own = self.__class__.__name__
        self._attrs = {
            "beta1": number(own, "beta1", beta1, least=0, below=1),
            "beta2": number(own, "beta2", beta2, least=0, below=1),
            "epsilon": number(own, "epsilon", epsilon, least=0),
        }

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002
        return dict(self._attrs)

    def accumulators(self) -> Sequence[Accumulator]:
        return MOMENTS


class Adam(_AdamLike):
    """torch's Adam.

    A sparse gradient always changes only its own rows, moments and counts included; `lazy_mode` is accepted either way
    and changes nothing.
    """

    type = "adam"

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_mode: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **common)
        switch("Adam", "lazy_mode", lazy_mode)


class AdamW(_AdamLike):
    """torch's AdamW: weights decay by themselves, not through the gradient."""

    type = "adamw"

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **common)
        self._attrs["coeff"] = number("AdamW", "weight_decay", weight_decay, least=0)


class Adamax(_AdamLike):
    """torch's Adamax: the largest gradient, which fades, in place of the root of their squares."""

    type = "adamax"

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **common)

    def accumulators(self) -> Sequence[Accumulator]:
        return Accumulator("Moment", "moment"), Accumulator("InfNorm", "inf_norm"), STEP


class Lamb(_AdamLike):
    """Adam whose step follows the norms of weights and direction, for large batches; see `fleet.optim.Lamb`.

    Parameters for which `exclude_from_weight_decay_fn(parameter)` is true have no weight decay.
    """

    type = "lamb"

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **common)
        self._weight_decay = number("Lamb", "lamb_weight_decay", lamb_weight_decay, least=0)
        if exclude_from_weight_decay_fn is not None and not callable(exclude_from_weight_decay_fn):
            raise UsageTypeError(
                f"Lamb: exclude_from_weight_decay_fn must be a function, got {exclude_from_weight_decay_fn!r}"
            )
        self._is_excluded = exclude_from_weight_decay_fn or (lambda _: False)

    def attrs(self, parameter: Parameter) -> dict[str, Any]:
        return {**self._attrs, "weight_decay": 0.0 if self._is_excluded(parameter) else self._weight_decay}
