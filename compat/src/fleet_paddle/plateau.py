"""When a measure no longer improves: what the schedules of both generations that look at the loss share."""

from __future__ import annotations

import math

from fleet.errors import UsageError


class Plateau:
    """Counts measures that were not better than the best, by more than a threshold; a schedule mixes it in.

    Better is smaller for mode "min", larger for "max". After `patience` others it is time for a lower rate, and then
    nothing is counted for `cooldown` measures.
    """

    mode: str
    threshold_mode: str
    threshold: float
    patience: int
    cooldown: int
    best: float | None = None
    num_bad_epochs = 0
    cooldown_counter = 0

    def check_modes(self) -> None:
        """UsageError for a mode that there is not."""
        for name, known in (("mode", ("min", "max")), ("threshold_mode", ("rel", "abs"))):
            if (value := getattr(self, name)) not in known:
                raise UsageError(f"{type(self).__name__}: {name} must be one of {', '.join(known)}, got {value!r}")

    def is_time(self, measure: float) -> bool:
        """Count a measure; whether it was one too many."""
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
        elif self.best is None or self._is_better(measure, self.best):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs <= self.patience:
            return False
        self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        return True

    def margin(self, best: float) -> float:
        """By how much a measure must be better: `threshold` of the best for "rel", else as it is."""
        return self.threshold * (best if self.threshold_mode == "rel" else 1)

    def _is_better(self, measure: float, best: float) -> bool:
        if math.isnan(measure):
            return False
        margin = self.margin(best)
        return measure < best - margin if self.mode == "min" else measure > best + margin
