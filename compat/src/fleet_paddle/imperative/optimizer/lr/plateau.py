"""A schedule that looks at how training goes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from fleet.errors import UsageError
from fleet_paddle.imperative.optimizer.lr.base import LRScheduler


class ReduceOnPlateau(LRScheduler):
    """The rate times `factor` when a measure, given to `step(metrics)`, has not improved for `patience` steps.

    Better is smaller for mode "min", larger for "max", by more than `threshold`: that part of the best one for
    "rel", that much for "abs". After a change nothing is counted for `cooldown` steps. The rate never falls below
    `min_lr`, and changes by less than `epsilon` are not made.
    """

    keys: ClassVar[tuple[str, ...]] = ("cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr")

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        for name, value, known in (("mode", mode, ("min", "max")), ("threshold_mode", threshold_mode, ("rel", "abs"))):
            if value not in known:
                raise UsageError(f"ReduceOnPlateau: {name} must be one of {', '.join(known)}, got {value!r}")
        if not factor < 1:
            raise UsageError(f"ReduceOnPlateau: factor must be < 1, got {factor}")
        self.mode, self.factor, self.patience, self.threshold = mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.min_lr, self.epsilon = threshold_mode, cooldown, min_lr, epsilon
        self.cooldown_counter, self.num_bad_epochs = 0, 0
        self.best: float | None = None
        super().__init__(learning_rate, -1, verbose)

    def _begin(self) -> None:
        self.last_epoch = 0

    def get_lr(self) -> float:
        return self.last_lr

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at the measure: a number, or a tensor or array of one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        measure = float(metrics.item() if hasattr(metrics, "item") else metrics)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
        elif self.best is None or self._is_better(measure, self.best):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            rate = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - rate > self.epsilon:
                self._set(rate)

    def _is_better(self, measure: float, best: float) -> bool:
        margin = self.threshold * (best if self.threshold_mode == "rel" else 1)
        if math.isnan(measure):
            return False
        return measure < best - margin if self.mode == "min" else measure > best + margin
