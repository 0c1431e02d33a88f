"""Learning-rate schedules: each is a variable that the program computes anew in every step.

    rate = layers.exponential_decay(learning_rate=0.1, decay_steps=1000, decay_rate=0.5)
    SGD(learning_rate=rate).minimize(loss)

They share one count of steps, `@LR_DECAY_COUNTER@`, which the first run finds at 0; like every persistable variable it
is saved with a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from fleet.errors import UsageError
from fleet.strategy.check import Check, Finite, Switch, Whole
from fleet_programs.definition.operator import SCHEDULE
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.observing import autoincreased_step_counter
from fleet_programs.parameters.settings import checked, number, whole
from fleet_programs.program.variable import Variable

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "inverse_time_decay",
    "linear_lr_warmup",
    "natural_exp_decay",
    "noam_decay",
    "piecewise_decay",
    "polynomial_decay",
]

COUNTER = "@LR_DECAY_COUNTER@"
_RATE = Finite(least=0)
_COUNT = Whole(least=1)
_CHECKS: dict[str, Check[Any]] = {
    "learning_rate": _RATE,
    "end_learning_rate": _RATE,
    "start_lr": _RATE,
    "end_lr": _RATE,
    "decay_rate": _RATE,
    "decay_steps": _COUNT,
    "step_each_epoch": _COUNT,
    "epochs": _COUNT,
    "power": Finite(above=0),
    "d_model": Finite(above=0),
    "staircase": Switch(),
    "cycle": Switch(),
}
"""What arguments of a name are in every schedule."""


def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Variable:
    """learning_rate * decay_rate ^ (step / decay_steps); with `staircase` only whole powers."""
    return _checked("exponential_decay", locals())


def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Variable:
    """learning_rate * exp(-decay_rate * step / decay_steps); with `staircase` in whole multiples of decay_rate."""
    return _checked("natural_exp_decay", locals())


def inverse_time_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Variable:
    """learning_rate / (1 + decay_rate * step / decay_steps); with `staircase` in whole multiples of decay_rate."""
    return _checked("inverse_time_decay", locals())


def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Variable:
    """From `learning_rate` to `end_learning_rate` within `decay_steps`.

    (learning_rate - end_learning_rate) * (1 - step / decay_steps) ^ power + end_learning_rate. Afterwards it stays
    there; with `cycle` it begins anew each time, over twice, three times, ... as many steps.
    """
    return _checked("polynomial_decay", locals())


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Variable:
    """`values[0]` before step `boundaries[0]`, `values[1]` before `boundaries[1]`, ..., the last one afterwards."""
    own = "piecewise_decay"
    steps = [whole(own, f"boundaries[{index}]", step, least=0) for index, step in enumerate(boundaries)]
    rates = [number(own, f"values[{index}]", rate, least=0) for index, rate in enumerate(values)]
    if len(rates) != len(steps) + 1:
        raise UsageError(f"{own}: values must be one more than boundaries, got {len(rates)} for {len(steps)}")
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise UsageError(f"{own}: boundaries must ascend, got {steps}")
    return _schedule(own, boundaries=steps, values=rates)


def noam_decay(d_model: float, warmup_steps: float, learning_rate: float = 1.0) -> Variable:
    """learning_rate * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5) in step n, the first of which is 1."""
    return _checked("noam_decay", locals(), warmup_steps=Finite(above=0))


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable:
    """learning_rate / 2 * (cos(epoch * pi / epochs) + 1), the same for all steps of an epoch."""
    return _checked("cosine_decay", locals())


def linear_lr_warmup(learning_rate: float | Variable, warmup_steps: int, start_lr: float, end_lr: float) -> Variable:
    """From `start_lr` to `end_lr` in a straight line of `warmup_steps`, then `learning_rate`, a schedule maybe."""
    return _checked("linear_lr_warmup", locals(), "linear_warmup", warmup_steps=_COUNT)


def _checked(own: str, given: dict[str, Any], kind: str = "", **checks: Check[Any]) -> Variable:
    """The schedule of a function by what it was given; a learning rate may be another schedule's variable."""
    rate = given["learning_rate"] if isinstance(given["learning_rate"], Variable) and kind else None
    attrs = {
        name: checked(own, name, value, checks.get(name) or _CHECKS[name])
        for name, value in given.items()
        if value is not rate
    }
    return _schedule(kind or own, rate, **attrs)


def _schedule(kind: str, rate: Variable | None = None, **attrs: Any) -> Variable:
    layer = LayerBuilder(kind)
    with layer.block.program.adding(SCHEDULE):
        out = layer.temporary(stop_gradient=True)
        layer.op(
            f"lr_{kind}",
            {"Step": autoincreased_step_counter(COUNTER, begin=0), "LearningRate": rate},
            {"Out": out},
            attrs,
        )
    return out
