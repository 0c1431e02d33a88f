"""Learning-rate schedules of version 1.8: objects that move on by themselves, one step at each `minimize`.

    rate = PiecewiseDecay([1000, 2000], [0.1, 0.01, 0.001], begin=0)
    optimizer = SGD(learning_rate=rate, parameter_list=model.parameters())

`begin` is where the count starts, `step` how far it moves; `step_num` is where it is. Those that count epochs move when
the script calls `epoch()` (see `epochs`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from fleet.errors import UsageError
from fleet.static.settings import number, whole


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


class PiecewiseDecay(LearningRateDecay):
    """`values[0]` before step `boundaries[0]`, `values[1]` before `boundaries[1]`, ..., the last one afterwards."""

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], begin: int, step: int = 1, dtype: Any = "float32"
    ) -> None:
        super().__init__(begin, step, dtype)
        if len(values) != len(boundaries) + 1:
            raise UsageError(
                f"PiecewiseDecay: values must be one more than boundaries, got {len(values)} for {len(boundaries)}"
            )
        self.boundaries = list(boundaries)
        self.values = [number("PiecewiseDecay", "values", one, least=0) for one in values]

    def step(self) -> float:
        place = next((i for i, end in enumerate(self.boundaries) if self.step_num < end), -1)
        return self.values[place]


class _Fading(LearningRateDecay):
    """What fades with step_num / decay_steps, of which `staircase` takes the whole part."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        begin: int = 0,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        own = type(self).__name__
        self.learning_rate = number(own, "learning_rate", learning_rate, least=0)
        self.decay_steps = number(own, "decay_steps", decay_steps, above=0)
        self.decay_rate = number(own, "decay_rate", decay_rate)
        self.staircase = bool(staircase)

    @property
    def part(self) -> float:
        """How many times `decay_steps` have passed."""
        part = self.step_num / self.decay_steps
        return math.floor(part) if self.staircase else part


class ExponentialDecay(_Fading):
    """learning_rate * decay_rate ^ (step_num / decay_steps)"""

    def step(self) -> float:
        return float(self.learning_rate * self.decay_rate**self.part)


class NaturalExpDecay(_Fading):
    """learning_rate * exp(-decay_rate * step_num / decay_steps)"""

    def step(self) -> float:
        return self.learning_rate * math.exp(-self.decay_rate * self.part)


class InverseTimeDecay(_Fading):
    """learning_rate / (1 + decay_rate * step_num / decay_steps)"""

    def step(self) -> float:
        return self.learning_rate / (1 + self.decay_rate * self.part)


class PolynomialDecay(LearningRateDecay):
    """From `learning_rate` to `end_learning_rate` within `decay_steps`; with `cycle` again and again, each longer."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        begin: int = 0,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        own = "PolynomialDecay"
        self.learning_rate = number(own, "learning_rate", learning_rate, least=0)
        self.decay_steps = number(own, "decay_steps", decay_steps, above=0)
        self.end_learning_rate = number(own, "end_learning_rate", end_learning_rate, least=0)
        self.power, self.cycle = number(own, "power", power), bool(cycle)

    def step(self) -> float:
        steps, now = self.decay_steps, float(self.step_num)
        if self.cycle:
            steps *= max(1, math.ceil(now / steps))
        part = 1 - min(now, steps) / steps
        return float((self.learning_rate - self.end_learning_rate) * part**self.power + self.end_learning_rate)


class CosineDecay(LearningRateDecay):
    """learning_rate / 2 * (cos(epoch * pi / epochs) + 1), the same for all steps of an epoch."""

    def __init__(
        self,
        learning_rate: float,
        step_each_epoch: int,
        epochs: int,
        begin: int = 0,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate = number("CosineDecay", "learning_rate", learning_rate, least=0)
        self.step_each_epoch = number("CosineDecay", "step_each_epoch", step_each_epoch, above=0)
        self.epochs = number("CosineDecay", "epochs", epochs, above=0)

    def step(self) -> float:
        epoch = math.floor(self.step_num / self.step_each_epoch)
        return self.learning_rate * 0.5 * (math.cos(epoch * math.pi / self.epochs) + 1)


class NoamDecay(LearningRateDecay):
    """learning_rate * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5) in step n, the first of which is 1."""

    def __init__(
        self,
        d_model: float,
        warmup_steps: float,
        begin: int = 1,
        step: int = 1,
        dtype: Any = "float32",
        learning_rate: float = 1.0,
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate = number("NoamDecay", "learning_rate", learning_rate, least=0)
        self.d_model = number("NoamDecay", "d_model", d_model, above=0)
        self.warmup_steps = number("NoamDecay", "warmup_steps", warmup_steps, above=0)

    def step(self) -> float:
        rising = self.step_num * self.warmup_steps**-1.5
        falling = self.step_num**-0.5 if self.step_num else math.inf
        return float(self.learning_rate * self.d_model**-0.5 * min(rising, falling))


class LinearLrWarmup(LearningRateDecay):
    """From `start_lr` to `end_lr` in a straight line of `warmup_steps`, then `learning_rate`, a schedule maybe.

    That schedule counts from the first step on.
    """

    kept = ("step_num", "learning_rate")

    def __init__(
        self,
        learning_rate: Any,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        begin: int = 1,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        own, is_schedule = "LinearLrWarmup", isinstance(learning_rate, LearningRateDecay)
        self.learning_rate = learning_rate if is_schedule else number(own, "learning_rate", learning_rate, least=0)
        self.warmup_steps = number(own, "warmup_steps", warmup_steps, above=0)
        self.start_lr = number(own, "start_lr", start_lr, least=0)
        self.end_lr = number(own, "end_lr", end_lr, above=self.start_lr)

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
