"""How long this process has run since a moment, without the time in which it was stopped or its machine suspended."""

import time
from collections.abc import Callable


class RanTime:
    """Counts the time in which this process ran. `look` is called every `interval_s`; a late one shows a gap."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._last = clock()
        self._gaps: list[tuple[float, float]] = []
        """When a gap ended, and how many seconds it took."""

    def look(self) -> None:
        """Note that the process runs; to be called every `interval_s`."""
        now = self._clock()
        lost_s = now - self._last - 2 * self._interval_s
        if lost_s > 0:
            self._gaps.append((now, lost_s))
        self._last = now

    def since(self, moment: float) -> float:
        """Seconds from a moment of the same clock until now."""
        now = self._clock()
        return max(0.0, now - moment - sum(lost_s for ended, lost_s in self._gaps if ended > moment))
