"""The schedules: a formula of the number of steps each."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from fleet.errors import UsageError
from fleet_paddle.imperative.optimizer.lr.base import LRScheduler


class NoamDecay(LRScheduler):
    """learning_rate * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5) at step n."""

    def __init__(
        self,
        d_model: float,
        warmup_steps: float,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if d_model <= 0 or warmup_steps <= 0:
            raise UsageError(f"NoamDecay: d_model and warmup_steps must be > 0, got {d_model} and {warmup_steps}")
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        number = self.last_epoch
        early = number * self.warmup_steps**-1.5
        return float(self.base_lr * self.d_model**-0.5 * (min(number**-0.5, early) if number else early))


class PiecewiseDecay(LRScheduler):
    """values[0] before boundaries[0], values[1] before boundaries[1], ..., the last one afterwards."""

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if len(values) != len(boundaries) + 1:
            raise UsageError(
                f"PiecewiseDecay: values must be one more than boundaries, got {len(values)} for {len(boundaries)}"
            )
        self.boundaries, self.values = list(boundaries), list(values)
        super().__init__(values[0], last_epoch, verbose)

    def get_lr(self) -> float:
        return self.values[bisect_right(self.boundaries, self.last_epoch)]


class _Gamma(LRScheduler):
    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)


class ExponentialDecay(_Gamma):
    """learning_rate * gamma^step."""

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


class NaturalExpDecay(_Gamma):
    """learning_rate * exp(-gamma * step)."""

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(_Gamma):
    """learning_rate / (1 + gamma * step)."""

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From `learning_rate` to `end_lr` within `decay_steps`; with `cycle` anew each time, over ever more steps."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if decay_steps < 1:
            raise UsageError(f"PolynomialDecay: decay_steps must be >= 1, got {decay_steps}")
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        whole, step = self.decay_steps, self.last_epoch
        if self.cycle:
            whole *= max(math.ceil(step / whole), 1)
        left: float = (1 - min(step / whole, 1.0)) ** self.power
        return (self.base_lr - self.end_lr) * left + self.end_lr


class LinearWarmup(LRScheduler):
    """From `start_lr` to `end_lr` in a straight line of `warmup_steps`, then `learning_rate`, a schedule maybe."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if warmup_steps < 1 or start_lr > end_lr:
            raise UsageError(
                f"LinearWarmup: warmup_steps must be >= 1 and start_lr at most end_lr, got {warmup_steps}, {start_lr} "
                f"and {end_lr}"
            )
        self.after, self.warmup_steps, self.start_lr, self.end_lr = learning_rate, warmup_steps, start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return self.start_lr + (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps
        if isinstance(self.after, LRScheduler):
            self.after.step(self.last_epoch - self.warmup_steps)
            return self.after()
        return self.after


class StepDecay(LRScheduler):
    """learning_rate * gamma^(step // step_size)."""

    def __init__(
        self, learning_rate: float, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if step_size < 1:
            raise UsageError(f"StepDecay: step_size must be >= 1, got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepDecay(LRScheduler):
    """learning_rate * gamma for each of the `milestones` that has passed."""

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if list(milestones) != sorted(milestones):
            raise UsageError(f"MultiStepDecay: milestones must ascend, got {list(milestones)}")
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** bisect_right(self.milestones, self.last_epoch)


class LambdaDecay(LRScheduler):
    """learning_rate * lr_lambda(step)."""

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class CosineAnnealingDecay(LRScheduler):
    """From `learning_rate` to `eta_min` and back along a cosine, `T_max` steps each way."""

    def __init__(
        self,
        learning_rate: float,
        T_max: int,  # noqa: N803 - the reference's name
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if T_max < 1:
            raise UsageError(f"CosineAnnealingDecay: T_max must be >= 1, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        turn = math.cos(math.pi * self.last_epoch / self.T_max)
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + turn) / 2
