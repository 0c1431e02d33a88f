"""What a progress bar has to say: how far, the values beside it, how fast, how long still."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleet.observe.timing.duration import in_words

Value = float | int | str


class Tally:
    """Counts steps from `initial` to `total`; as text `step 120/300  loss 0.4100  12.3 steps/s  15 s left`.

    Rate and time left are those of the steps counted here: what an earlier run did before `initial` took its own time.
    """

    def __init__(self, unit: str, initial: int, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.done = initial
        self.is_over = False
        """Whether nothing more is counted, so that the time it took stands where the time left was."""
        self.values: dict[str, Value] = {}
        self._unit = unit
        self._initial = initial
        self.total = total
        self._clock = clock
        self._began_at = clock()

    def __str__(self) -> str:
        seconds = self._clock() - self._began_at
        parts = [f"{self._unit} {self.done}{'' if self.total is None else f'/{self.total}'}"]
        parts += [f"{name} {shown(value)}" for name, value in self.values.items()]
        counted = self.done - self._initial
        if counted > 0:
            parts.append(self._rate(counted / max(seconds, 1e-9)))
        if self.is_over:
            parts.append(f"in {in_words(seconds)}")
        elif counted > 0 and self.total is not None and self.done < self.total:
            parts.append(f"{in_words(seconds / counted * (self.total - self.done))} left")
        return "  ".join(parts)

    def _rate(self, per_second: float) -> str:
        if per_second < 1:
            return f"{in_words(1 / per_second)}/{self._unit}"
        return f"{per_second:,.{1 if per_second < 100 else 0}f} {plural(self._unit)}/s"


def plural(unit: str) -> str:
    """`steps`, `batches`: as counts of these are called."""
    return f"{unit}es" if unit.endswith(("s", "x", "ch", "sh")) else f"{unit}s"


def shown(value: Value) -> str:
    """A value as it stands beside a bar; a small number keeps its digits."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.3g}"
