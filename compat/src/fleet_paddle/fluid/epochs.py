"""Learning-rate schedules of version 1.8 that count epochs: the script says when one is over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.static.settings import number, switch, whole
from fleet_paddle.fluid.rates import LearningRateDecay


class EpochDecay(LearningRateDecay):
    """A rate that stays the same until `epoch()` is called."""

    kept = ("epoch_num",)

    def __init__(self, learning_rate: float, dtype: Any = "float32") -> None:
        super().__init__(0, 0, dtype)
        self.base_lr = number(type(self).__name__, "learning_rate", learning_rate, least=0)
        self.epoch_num = 0

    def epoch(self, epoch: int | None = None) -> None:
        """Move on by one epoch, or to `epoch`."""
        self.epoch_num = self.epoch_num + 1 if epoch is None else int(epoch)

    @abstractmethod
    def get_lr(self) -> float:
        """The rate at `epoch_num`."""

    def step(self) -> float:
        return float(self.get_lr())


class StepDecay(EpochDecay):
    """Times `decay_rate` every `step_size` epochs."""

    def __init__(self, learning_rate: float, step_size: int, decay_rate: float = 0.1) -> None:
        super().__init__(learning_rate)
        self.step_size_epochs = whole("StepDecay", "step_size", step_size, least=1)
        self.decay_rate = number("StepDecay", "decay_rate", decay_rate, least=0, below=1)

    def get_lr(self) -> float:
        return float(self.base_lr * self.decay_rate ** (self.epoch_num // self.step_size_epochs))


class MultiStepDecay(EpochDecay):
    """Times `decay_rate` at each of the epochs `milestones`."""

    def __init__(self, learning_rate: float, milestones: Sequence[int], decay_rate: float = 0.1) -> None:
        super().__init__(learning_rate)
        if not all(one < other for one, other in pairwise(milestones)):
            raise UsageError(f"MultiStepDecay: milestones must rise, got {list(milestones)}")
        self.milestones = list(milestones)
        self.decay_rate = number("MultiStepDecay", "decay_rate", decay_rate, least=0, below=1)

    def get_lr(self) -> float:
        return float(self.base_lr * self.decay_rate ** sum(self.epoch_num >= one for one in self.milestones))


class LambdaDecay(EpochDecay):
    """`learning_rate` times what a function of the epoch says."""

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float]) -> None:
        super().__init__(learning_rate)
        if not callable(lr_lambda):
            raise UsageTypeError(f"LambdaDecay: lr_lambda must be a function of the epoch, got {lr_lambda!r}")
        self.lr_lambda = lr_lambda

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.epoch_num)


class ReduceLROnPlateau(LearningRateDecay):
    """Times `decay_rate` when `step(loss)` has seen no better loss for more than `patience` calls.

    Better is lower, or with mode "max" higher, by `threshold`: of the best so far ("rel"), or as it is ("abs"). After a
    reduction `cooldown` calls are not counted.
    """

    kept = ("learning_rate", "best_loss", "num_bad_epochs", "cooldown_counter", "epoch_num")

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        decay_rate: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        eps: float = 1e-8,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(0, 0, dtype)
        own = "ReduceLROnPlateau"
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise UsageError(
                f"{own}: mode must be min or max, threshold_mode rel or abs, got {mode!r} and {threshold_mode!r}"
            )
        self.mode, self.threshold_mode = mode, threshold_mode
        self.learning_rate = number(own, "learning_rate", learning_rate, least=0)
        self.decay_rate = number(own, "decay_rate", decay_rate, least=0, below=1)
        self.patience, self.cooldown = whole(own, "patience", patience), whole(own, "cooldown", cooldown)
        self.verbose = switch(own, "verbose", verbose)
        self.threshold, self.eps = number(own, "threshold", threshold), number(own, "eps", eps)
        self.min_lr = number(own, "min_lr", min_lr, least=0)
        self.best_loss: float | None = None
        self.num_bad_epochs = self.cooldown_counter = self.epoch_num = 0

    def __call__(self) -> float:
        return self.learning_rate

    def step(self, loss: Any = None) -> float:
        """Count one loss, a number or a tensor of one; gives the rate."""
        if loss is None:
            return self.learning_rate
        value = float(loss.item() if isinstance(loss, torch.Tensor) else loss)
        self.epoch_num += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
        elif self.best_loss is None or self._is_better(value, self.best_loss):
            self.best_loss, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self._reduce()
        return self.learning_rate

    def _reduce(self) -> None:
        self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        lower = max(self.learning_rate * self.decay_rate, self.min_lr)
        if self.learning_rate - lower > self.eps:
            if self.verbose:
                print(f"Epoch {self.epoch_num}: reducing learning rate from {self.learning_rate} to {lower}.")
            self.learning_rate = lower

    def _is_better(self, now: float, best: float) -> bool:
        margin = abs(best) * self.threshold if self.threshold_mode == "rel" else self.threshold
        return now < best - margin if self.mode == "min" else now > best + margin


__all__ = ["EpochDecay", "LambdaDecay", "MultiStepDecay", "ReduceLROnPlateau", "StepDecay"]
