"""A schedule that looks at how training goes."""

from __future__ import annotations

from typing import Any, ClassVar

from fleet_paddle.imperative.optimizer.lr.base import Formula
from fleet_paddle.plateau import Plateau


class ReduceOnPlateau(Plateau, Formula):
    """The rate times `factor` when a measure, given to `step(metrics)`, has not improved for `patience` steps.

    Better is smaller for mode "min", larger for "max", by more than `threshold`: that part of the best one for
    "rel", that much for "abs". After a change nothing is counted for `cooldown` steps. The rate never falls below
    `min_lr`, and changes by less than `epsilon` are not made.
    """

    keys: ClassVar[tuple[str, ...]] = ("cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr")
    takes = (
        "learning_rate, mode='min', factor=0.1, patience=10, threshold=1e-4, threshold_mode='rel', cooldown=0, "
        "min_lr=0, epsilon=1e-8, verbose=False"
    )

    factor: float
    min_lr: float
    epsilon: float

    def check(self) -> None:
        self.check_modes()
        self.must(self.factor < 1, f"factor must be < 1, got {self.factor}")

    def _begin(self) -> None:
        self.last_epoch = 0

    def get_lr(self) -> float:
        return self.last_lr

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at the measure: a number, or a tensor or array of one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_time(float(metrics.item() if hasattr(metrics, "item") else metrics)):
            rate = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - rate > self.epsilon:
                self._set(rate)
