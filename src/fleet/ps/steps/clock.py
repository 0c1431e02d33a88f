"""The time by which rows grow old: the steps of the workers, counted on through their lives and through loads."""

from typing import Any


class Clock:
    """Tells the time of a push. A worker counts its own steps, from 0 in every life; here they go on. The caller locks.

    In sync mode all workers share one count, which is the servers' own, and nothing is added to it.
    """

    def __init__(self, num_workers: int, *, is_common: bool) -> None:
        """`is_common`: all workers count the same steps, those that are complete."""
        self._is_common = is_common
        self._begins = [0] * num_workers
        self._steps = [0] * num_workers
        self.now = 0

    def begin(self, worker: int) -> None:
        """A worker begins a new life, and counts from 0 again."""
        self._begins[worker], self._steps[worker] = self.now, 0

    def set(self, now: int) -> None:
        """Go on from another time: a checkpoint was loaded whose rows have theirs."""
        self.now = now
        self._begins = [now - steps for steps in self._steps]

    def time_of(self, worker: int, step: int) -> int:
        """The time of a worker's push; moves the clock on."""
        time = step
        if not self._is_common:
            self._steps[worker] = max(self._steps[worker], step + 1)
            time = max(0, self._begins[worker] + step)
        self.now = max(self.now, time)
        return time & 0xFFFFFFFF

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {"begins": self._begins, "steps": self._steps, "now": self.now}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on as a snapshot says."""
        self._begins, self._steps, self.now = list(saved["begins"]), list(saved["steps"]), int(saved["now"])
