"""The schedules: a formula of the number of steps each."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from fleet_paddle.imperative.optimizer.lr.base import Formula, LRScheduler

_REST = "last_epoch=-1, verbose=False"


class NoamDecay(Formula):
    """learning_rate * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5) at step n."""

    takes = f"d_model, warmup_steps, learning_rate=1.0, {_REST}"
    d_model: float
    warmup_steps: float

    def check(self) -> None:
        width, steps = self.d_model, self.warmup_steps
        self.must(width > 0 and steps > 0, f"d_model and warmup_steps must be > 0, got {width} and {steps}")

    def get_lr(self) -> float:
        number = self.last_epoch
        early = number * self.warmup_steps**-1.5
        return float(self.base_lr * self.d_model**-0.5 * (min(number**-0.5, early) if number else early))


class PiecewiseDecay(Formula):
    """values[0] before boundaries[0], values[1] before boundaries[1], ..., the last one afterwards."""

    takes = f"boundaries, values, {_REST}"
    boundaries: Sequence[int]
    values: Sequence[float]

    def take(self, given: dict[str, Any]) -> None:
        lists = {name: list(given[name]) for name in ("boundaries", "values")}
        super().take({**given, **lists, "learning_rate": lists["values"][0] if lists["values"] else 0.0})

    def check(self) -> None:
        rates, ends = len(self.values), len(self.boundaries)
        self.must(rates == ends + 1, f"values must be one more than boundaries, got {rates} for {ends}")

    def get_lr(self) -> float:
        return self.values[bisect_right(self.boundaries, self.last_epoch)]


class _Gamma(Formula):
    takes = f"learning_rate, gamma, {_REST}"
    gamma: float


class _Fading(_Gamma):
    def get_lr(self) -> float:
        return self.formula(self.base_lr, self.gamma, self.last_epoch)

    @staticmethod
    @abstractmethod
    def formula(rate: float, gamma: float, steps: float) -> float:
        """What is left of the rate after so many steps."""


class ExponentialDecay(_Fading):
    """learning_rate * gamma^step."""

    @staticmethod
    def formula(rate: float, gamma: float, steps: float) -> float:
        return float(rate * gamma**steps)


class NaturalExpDecay(_Fading):
    """learning_rate * exp(-gamma * step)."""

    @staticmethod
    def formula(rate: float, gamma: float, steps: float) -> float:
        return rate * math.exp(-gamma * steps)


class InverseTimeDecay(_Fading):
    """learning_rate / (1 + gamma * step)."""

    @staticmethod
    def formula(rate: float, gamma: float, steps: float) -> float:
        return rate / (1 + gamma * steps)


class PolynomialDecay(Formula):
    """From `learning_rate` to `end_lr` within `decay_steps`; with `cycle` anew each time, over ever more steps."""

    takes = f"learning_rate, decay_steps, end_lr=0.0001, power=1.0, cycle=False, {_REST}"
    counts = ("decay_steps",)
    decay_steps: int
    end_lr: float
    power: float
    cycle: bool

    def get_lr(self) -> float:
        whole, step = self.decay_steps, self.last_epoch
        if self.cycle:
            whole *= max(math.ceil(step / whole), 1)
        left: float = (1 - min(step / whole, 1.0)) ** self.power
        return (self.base_lr - self.end_lr) * left + self.end_lr


class LinearWarmup(Formula):
    """From `start_lr` to `end_lr` in a straight line of `warmup_steps`, then `learning_rate`, a schedule maybe."""

    takes = f"learning_rate->after, warmup_steps, start_lr, end_lr, {_REST}"
    after: float | LRScheduler
    warmup_steps: int
    start_lr: float
    end_lr: float

    def take(self, given: dict[str, Any]) -> None:
        super().take({**given, "learning_rate": given["start_lr"]})

    def check(self) -> None:
        steps, first, last = self.warmup_steps, self.start_lr, self.end_lr
        rule = "warmup_steps must be >= 1 and start_lr at most end_lr"
        self.must(steps >= 1 and first <= last, f"{rule}, got {steps}, {first} and {last}")

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return self.start_lr + (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps
        if isinstance(self.after, LRScheduler):
            self.after.step(self.last_epoch - self.warmup_steps)
            return self.after()
        return self.after


class StepDecay(_Gamma):
    """learning_rate * gamma^(step // step_size)."""

    takes = f"learning_rate, step_size, gamma=0.1, {_REST}"
    counts = ("step_size",)
    step_size: int

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepDecay(_Gamma):
    """learning_rate * gamma for each of the `milestones` that has passed."""

    takes = f"learning_rate, milestones, gamma=0.1, {_REST}"
    milestones: Sequence[int]

    def check(self) -> None:
        self.milestones = list(self.milestones)
        self.must(self.milestones == sorted(self.milestones), f"milestones must ascend, got {self.milestones}")

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** bisect_right(self.milestones, self.last_epoch)


class LambdaDecay(Formula):
    """learning_rate * lr_lambda(step)."""

    takes = f"learning_rate, lr_lambda, {_REST}"
    lr_lambda: Callable[[int], float]

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(Formula):
    """learning_rate times lr_lambda(1), lr_lambda(2), ... up to lr_lambda(step)."""

    takes = f"learning_rate, lr_lambda, {_REST}"
    lr_lambda: Callable[[int], float]

    def get_lr(self) -> float:
        return self.base_lr * math.prod(self.lr_lambda(number) for number in range(1, self.last_epoch + 1))


class CosineAnnealingDecay(Formula):
    """From `learning_rate` to `eta_min` and back along a cosine, `T_max` steps each way."""

    takes = f"learning_rate, T_max, eta_min=0, {_REST}"
    counts = ("T_max",)
    T_max: int
    eta_min: float

    def get_lr(self) -> float:
        turn = math.cos(math.pi * self.last_epoch / self.T_max)
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + turn) / 2
