"""Every rule: its constants with their defaults, the state it keeps, and its formula as torch operations.

The formulas serve values that are tensors: dense parameters of a server on a GPU, rows that are trained beside the
model, operators of programs. `csrc/rule/` has each once more, for tables and buffers in host memory, where it is the
fastest. tests/unit/ps/job/test_rules_contract.py holds every home of a rule to its row here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import torch

from fleet.ps.job import rule_formulas as formulas
from fleet.ps.job.corrections import Corrections, Number
from fleet.ps.job.rule_formulas import Args, RuleStep, Scalar


class KeptPart(NamedTuple):
    """What a rule keeps beside the values: an array as long as they are, or one float."""

    name: str
    goes_with: str = ""
    """The constant that must not be 0 for this to be kept."""
    first: str = ""
    """The constant that it begins at; without one it begins at 0."""


@dataclass(frozen=True)
class TableRow:
    """One row of the table."""

    constants: Args
    """The constants with their defaults; one that is NaN must be given."""
    arrays: tuple[KeptPart, ...] = ()
    scalars: tuple[KeptPart, ...] = ()
    """In the state they follow the arrays."""
    formula: Callable[[RuleStep], None] | None = None
    """None where csrc/rule/ alone has the rule."""
    bound: float = 0.0
    """How far the formula may be from the native one, as a share of an array's largest element; 0: the same bits."""


_LR_ONLY = {"lr": 0.001, "weight_decay": 0.0, "maximize": 0.0}
_MOMENTUM = {**_LR_ONLY, "momentum": 0.9, "nesterov": 0.0}
_ADAGRAD = {**_LR_ONLY, "lr": 0.01, "lr_decay": 0.0, "initial_accumulator_value": 0.0, "eps": 1e-10}
_DECAYED = {**_LR_ONLY, "lr": 0.01, "decay": 0.95, "eps": 1e-6}
_RMSPROP = {**_LR_ONLY, "lr": 0.01, "alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": 0.0}
_ADAMAX = {**_LR_ONLY, "lr": 0.002, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
_ADAM = {**_ADAMAX, "lr": 0.001, "amsgrad": 0.0, "decoupled_weight_decay": 0.0}
_ADAMW = {**_ADAM, "weight_decay": 0.01, "decoupled_weight_decay": 1.0}
_FTRL = {**_LR_ONLY, "l1": 0.0, "l2": 0.0, "lr_power": -0.5, "initial_accumulator_value": 0.1}
_LAMB = {**_ADAMAX, "lr": 0.001, "eps": 1e-6, "weight_decay": 0.01}
_LARS = {**_MOMENTUM, "lr": nan, "coeff": 0.001, "weight_decay": 0.0005, "eps": 0.0}

_BUFFER, _MEANS, _SQUARES, _COUNT = KeptPart("buffer"), KeptPart("means"), KeptPart("squares"), KeptPart("count")
_MOMENTS = (_MEANS, _SQUARES, KeptPart("largest", goes_with="amsgrad"))
_SUM, _SLOWED = KeptPart("sum", first="initial_accumulator_value"), KeptPart("count", goes_with="lr_decay")
_MOVING = (_SQUARES, KeptPart("buffer", goes_with="momentum"), KeptPart("means", goes_with="centered"))
_ZN = (KeptPart("z"), KeptPart("n", first="initial_accumulator_value"))

RULES: dict[str, TableRow] = {
    "adagrad": TableRow(_ADAGRAD, (_SUM,), (_SLOWED,), formulas.adagrad),
    "adagrad_row": TableRow(_ADAGRAD, (), (_SUM, _SLOWED)),
    "adam": TableRow(_ADAM, _MOMENTS, (_COUNT,), formulas.adam),
    "adamax": TableRow(_ADAMAX, (_MEANS, KeptPart("sizes")), (_COUNT,), formulas.adamax),
    "adamw": TableRow(_ADAMW, _MOMENTS, (_COUNT,), formulas.adam),
    "average": TableRow({"lr": 1.0}, (), (), formulas.average),
    "decayed_adagrad": TableRow(_DECAYED, (_SQUARES,), (), formulas.rmsprop),
    "ftrl": TableRow(
        _FTRL, _ZN, (), formulas.ftrl, bound=1e-6
    ),  # the core has its own `pow`; square roots agree bit for bit
    "lamb": TableRow(
        _LAMB, (_MEANS, _SQUARES), (_COUNT,), formulas.lamb, bound=1e-6
    ),  # norms are sums in another order
    "lars": TableRow(_LARS, (_BUFFER,), (), formulas.lars, bound=1e-6),  # as for lamb
    "momentum": TableRow(
        {**_MOMENTUM, "dampening": 0.0}, (_BUFFER,), (KeptPart("begun", goes_with="dampening"),), formulas.momentum
    ),
    "rmsprop": TableRow(_RMSPROP, _MOVING, (), formulas.rmsprop),
    "sgd": TableRow(_LR_ONLY, (), (), formulas.sgd),
    "sum": TableRow({}, (), (), formulas.add),
}


class TensorRule:
    """A rule with its arguments, for values that are tensors."""

    def __init__(self, name: str, args: Args) -> None:
        rule = RULES[name]
        assert rule.formula is not None
        self._formula, self._args = rule.formula, {**rule.constants, **args}
        self.num_arrays, self._has_scalar = (
            sum(not part.goes_with or self._args[part.goes_with] != 0 for part in parts)
            for parts in (rule.arrays, rule.scalars)
        )
        self._corrections: Mapping[str, Corrections] = {
            beta: Corrections(self._args[beta], is_root=beta == "beta2")
            for beta in ("beta1", "beta2")
            if beta in self._args
        }

    def apply(
        self,
        values: torch.Tensor,
        arrays: Sequence[torch.Tensor],
        scalar: Scalar | None,
        grads: torch.Tensor,
        lr: Number,
        axis: int = 0,
    ) -> None:
        """One update in place; see `RuleStep`."""
        has = scalar if self._has_scalar else None
        self._formula(RuleStep(values, tuple(arrays), has, grads, lr, self._args, self._corrections, axis))

    def apply_to_rows(self, values: torch.Tensor, state: torch.Tensor, grads: torch.Tensor, lr: float) -> None:
        """One update in place of values [U, D] and state [U, W], which has the arrays and then the scalar."""
        width = values.shape[1]
        arrays = [state[:, number * width : (number + 1) * width] for number in range(self.num_arrays)]
        self.apply(values, arrays, state[:, self.num_arrays * width :], grads, lr, axis=1)
