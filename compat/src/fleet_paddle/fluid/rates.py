"""Learning-rate schedules of version 1.8: objects that move on by themselves, one step at each `minimize`.

    rate = PiecewiseDecay([1000, 2000], [0.1, 0.01, 0.001], begin=0)
    optimizer = SGD(learning_rate=rate, parameter_list=model.parameters())

`begin` is where the count starts, `step` how far it moves; `step_num` is where it is. Those that count epochs move when
the script calls `epoch()` (see `epochs`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fleet.errors import UsageError
from fleet.strategy.check import Finite
from fleet_paddle.imperative.optimizer.lr import schedules
from fleet_paddle.taking import Taking
from fleet_programs.parameters.settings import checked, number, whole

_POSITIVE = Finite(above=0)
_NOT_NEGATIVE = Finite(least=0)
_CHECKS: dict[str, Any] = {
    "learning_rate": _NOT_NEGATIVE,
    "end_learning_rate": _NOT_NEGATIVE,
    "start_lr": _NOT_NEGATIVE,
    "decay_steps": _POSITIVE,
    "step_each_epoch": _POSITIVE,
    "epochs": _POSITIVE,
    "d_model": _POSITIVE,
    "warmup_steps": _POSITIVE,
    "staircase": bool,
    "cycle": bool,
}
"""What settings of a name are everywhere; others are numbers."""

_REST = "begin=0, step=1, dtype='float32'"


class LearningRateDecay(ABC):
    """A rate that depends on how often it was asked for. A subclass says in `step()` what it is at `step_num`."""

    kept: ClassVar[tuple[str, ...]] = ("step_num",)
    """What a checkpoint of it holds."""

    def __init__(self, begin: int = 0, step: int = 1, dtype: Any = "float32") -> None:
        own = type(self).__name__
        self.step_num = whole(own, "begin", begin, least=0)
        self.step_size = whole(own, "step", step, least=0)
        self.dtype = dtype

    @abstractmethod
    def step(self) -> float:
        """The rate at `step_num`."""

    def __call__(self) -> float:
        """The rate of this step; the next call is the next step."""
        rate = float(self.step())
        self.step_num += self.step_size
        return rate

    def state_dict(self) -> dict[str, Any]:
        """Where it is."""
        return {name: _state(getattr(self, name)) for name in self.kept}

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another was."""
        for name in self.kept:
            if name not in state_dict:
                raise UsageError(
                    f"{type(self).__name__}: the state has no {name!r}; give that of a schedule of the same class"
                )
            inner = getattr(self, name)
            if isinstance(inner, LearningRateDecay):
                inner.set_dict(state_dict[name])
            else:
                setattr(self, name, state_dict[name])

    set_state_dict = set_dict


def _state(value: Any) -> Any:
    return value.state_dict() if isinstance(value, LearningRateDecay) else value


class Formula(Taking, LearningRateDecay):
    """A schedule that says in `takes` what its settings are; each is an attribute."""

    def take(self, given: dict[str, Any]) -> None:
        """Keep the settings, checked, and begin with those that every schedule has."""
        LearningRateDecay.__init__(self, given.pop("begin"), given.pop("step"), given.pop("dtype"))
        for name, value in given.items():
            setattr(self, name, self.cleaned(name, value))

    def cleaned(self, name: str, value: Any) -> Any:
        """What is kept of an argument."""
        return checked(type(self).__name__, name, value, _CHECKS.get(name, Finite()))


class PiecewiseDecay(Formula):
    """`values[0]` before step `boundaries[0]`, `values[1]` before `boundaries[1]`, ..., the last one afterwards."""

    takes = "boundaries, values, begin, step=1, dtype='float32'"
    boundaries: list[int]
    values: list[float]

    def take(self, given: dict[str, Any]) -> None:
        num_rates, num_ends = len(given["values"]), len(given["boundaries"])
        if num_rates != num_ends + 1:
            raise UsageError(f"PiecewiseDecay: values must be one more than boundaries, got {num_rates} for {num_ends}")
        super().take(given)

    def cleaned(self, name: str, value: Any) -> Any:
        return [checked("PiecewiseDecay", name, one, _NOT_NEGATIVE if name == "values" else Finite()) for one in value]

    def step(self) -> float:
        place = next((i for i, end in enumerate(self.boundaries) if self.step_num < end), -1)
        return self.values[place]


class _Fading(Formula):
    """What fades with step_num / decay_steps, of which `staircase` takes the whole part."""

    takes = f"learning_rate, decay_steps, decay_rate, staircase=False, {_REST}"
    learning_rate: float
    decay_steps: float
    decay_rate: float
    staircase: bool
    formula: ClassVar[Any]

    @property
    def part(self) -> float:
        """How many times `decay_steps` have passed."""
        part = self.step_num / self.decay_steps
        return math.floor(part) if self.staircase else part

    def step(self) -> float:
        return float(self.formula(self.learning_rate, self.decay_rate, self.part))


class ExponentialDecay(_Fading):
    """learning_rate * decay_rate ^ (step_num / decay_steps)"""

    formula = staticmethod(schedules.ExponentialDecay.formula)


class NaturalExpDecay(_Fading):
    """learning_rate * exp(-decay_rate * step_num / decay_steps)"""

    formula = staticmethod(schedules.NaturalExpDecay.formula)


class InverseTimeDecay(_Fading):
    """learning_rate / (1 + decay_rate * step_num / decay_steps)"""

    formula = staticmethod(schedules.InverseTimeDecay.formula)


class PolynomialDecay(Formula):
    """From `learning_rate` to `end_learning_rate` within `decay_steps`; with `cycle` again and again, each longer."""

    takes = f"learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False, {_REST}"
    learning_rate: float
    decay_steps: float
    end_learning_rate: float
    power: float
    cycle: bool

    def step(self) -> float:
        steps, now = self.decay_steps, float(self.step_num)
        if self.cycle:
            steps *= max(1, math.ceil(now / steps))
        part = 1 - min(now, steps) / steps
        return float((self.learning_rate - self.end_learning_rate) * part**self.power + self.end_learning_rate)


class CosineDecay(Formula):
    """learning_rate / 2 * (cos(epoch * pi / epochs) + 1), the same for all steps of an epoch."""

    takes = f"learning_rate, step_each_epoch, epochs, {_REST}"
    learning_rate: float
    step_each_epoch: float
    epochs: float

    def step(self) -> float:
        epoch = math.floor(self.step_num / self.step_each_epoch)
        return self.learning_rate * 0.5 * (math.cos(epoch * math.pi / self.epochs) + 1)


class NoamDecay(Formula):
    """learning_rate * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5) in step n, the first of which is 1."""

    takes = "d_model, warmup_steps, begin=1, step=1, dtype='float32', learning_rate=1.0"
    d_model: float
    warmup_steps: float
    learning_rate: float

    def step(self) -> float:
        rising = self.step_num * self.warmup_steps**-1.5
        falling = self.step_num**-0.5 if self.step_num else math.inf
        return float(self.learning_rate * self.d_model**-0.5 * min(rising, falling))


class LinearLrWarmup(Formula):
    """From `start_lr` to `end_lr` in a straight line of `warmup_steps`, then `learning_rate`, a schedule maybe.

    That schedule counts from the first step on.
    """

    kept = ("step_num", "learning_rate")

    takes = "learning_rate, warmup_steps, start_lr, end_lr, begin=1, step=1, dtype='float32'"
    learning_rate: float | LearningRateDecay
    warmup_steps: float
    start_lr: float
    end_lr: float

    def cleaned(self, name: str, value: Any) -> Any:
        if name == "end_lr":
            return number("LinearLrWarmup", name, value, above=self.start_lr)
        return value if isinstance(value, LearningRateDecay) else super().cleaned(name, value)

    def step(self) -> float:
        later = self.learning_rate() if isinstance(self.learning_rate, LearningRateDecay) else self.learning_rate
        if self.step_num >= self.warmup_steps:
            return float(later)
        return self.start_lr + (self.end_lr - self.start_lr) * self.step_num / self.warmup_steps


__all__ = [
    "CosineDecay",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LearningRateDecay",
    "LinearLrWarmup",
    "NaturalExpDecay",
    "NoamDecay",
    "PiecewiseDecay",
    "PolynomialDecay",
]
