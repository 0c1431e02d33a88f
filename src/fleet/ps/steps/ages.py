"""When each step was made: turns an age in seconds into one in steps, by which rows grow old.

A row notes the step of its last push, not the time, which would take eight bytes more. Servers note now and then which
step it is, less often the longer a job runs, so an age is right to about a two-thousandth of the time since the job
began; what is in doubt is kept.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence

FIRST_S = 1.0
MOST = 4096


class Ages:
    """What one server knows of its past; the caller locks."""

    def __init__(self) -> None:
        self.wall_s: Callable[[], float] = time.time
        """Seconds since 1970."""
        self._times: list[float] = []
        self._steps: list[int] = []

    def note(self, step: int) -> None:
        """This is the present step."""
        if self._times and step <= self._steps[-1]:
            return
        now_s = self.wall_s()
        pause_s = max(FIRST_S, (now_s - self._times[0]) * 2 / MOST) if self._times else 0.0
        if self._times and now_s < self._times[-1] + pause_s:
            return
        self._times.append(now_s)
        self._steps.append(step)
        if len(self._times) > MOST:
            self._times, self._steps = self._times[::2], self._steps[::2]

    def unseen_steps(self, seconds: float, step: int) -> int:
        """How many steps were made in the last `seconds`; 0: the job is not that old.

        `step` is the present one.
        """
        found = bisect_right(self._times, self.wall_s() - seconds) - 1
        return 0 if found < 0 else max(1, step - self._steps[found])

    def to_json(self) -> list[tuple[float, int]]:
        """For a snapshot."""
        return list(zip(self._times, self._steps, strict=True))

    def restore(self, saved: Sequence[Sequence[float]]) -> None:
        """Go on as a snapshot says."""
        self._times = [float(at) for at, _ in saved]
        self._steps = [int(step) for _, step in saved]
