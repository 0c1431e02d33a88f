"""Learning-rate schedules of version 1.8 that count epochs: the script says when one is over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.strategy.check import Check, Finite, Switch, Whole
from fleet_paddle.fluid.rates import Formula, LearningRateDecay
from fleet_paddle.plateau import Plateau
from fleet_programs.parameters.settings import checked, number, whole


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


class ReduceLROnPlateau(Plateau, Formula):
    """Times `decay_rate` when `step(loss)` has seen no better loss for more than `patience` calls.

    Better is lower, or with mode "max" higher, by `threshold`: of the best so far ("rel"), or as it is ("abs"). After a
    reduction `cooldown` calls are not counted.
    """

    kept = ("learning_rate", "best_loss", "num_bad_epochs", "cooldown_counter", "epoch_num")
    takes = (
        "learning_rate, mode='min', decay_rate=0.1, patience=10, verbose=False, threshold=1e-4, threshold_mode='rel', "
        "cooldown=0, min_lr=0, eps=1e-8, dtype='float32'"
    )

    learning_rate: float
    decay_rate: float
    verbose: bool
    min_lr: float
    eps: float

    def take(self, given: dict[str, Any]) -> None:
        self.mode, self.threshold_mode = given.pop("mode"), given.pop("threshold_mode")
        self.check_modes()
        self.epoch_num = 0
        super().take({**given, "begin": 0, "step": 0})

    def cleaned(self, name: str, value: Any) -> Any:
        return checked("ReduceLROnPlateau", name, value, _OF_PLATEAU.get(name, Finite()))

    @property
    def best_loss(self) -> float | None:
        """The best one so far."""
        return self.best

    @best_loss.setter
    def best_loss(self, value: float | None) -> None:
        self.best = value

    def __call__(self) -> float:
        return self.learning_rate

    def step(self, loss: Any = None) -> float:
        """Count one loss, a number or a tensor of one; gives the rate."""
        if loss is None:
            return self.learning_rate
        self.epoch_num += 1
        if self.is_time(float(loss.item() if isinstance(loss, torch.Tensor) else loss)):
            self._reduce()
        return self.learning_rate

    def margin(self, best: float) -> float:
        return super().margin(abs(best))

    def _reduce(self) -> None:
        lower = max(self.learning_rate * self.decay_rate, self.min_lr)
        if self.learning_rate - lower > self.eps:
            if self.verbose:
                print(f"Epoch {self.epoch_num}: reducing learning rate from {self.learning_rate} to {lower}.")
            self.learning_rate = lower


_OF_PLATEAU: dict[str, Check[Any]] = {
    "learning_rate": Finite(least=0),
    "decay_rate": Finite(least=0, below=1),
    "patience": Whole(),
    "cooldown": Whole(),
    "verbose": Switch(),
    "min_lr": Finite(least=0),
}

__all__ = ["EpochDecay", "LambdaDecay", "MultiStepDecay", "ReduceLROnPlateau", "StepDecay"]
