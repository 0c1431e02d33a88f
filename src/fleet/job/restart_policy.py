"""Whether a process of a durable job that has died is started again, and after what pause.

A process that a signal killed had bad luck, and is started again at once. One that ended with an exit code of its own
has more often a mistake: a worker waits a moment before its next life, longer each time. The job ends over

- a process that ends with an exit code within `EARLY_S` of its start, three times in a row;
- a worker that reported a stall (exit code 124), or could not join its servers for an error of usage or a state that
  does not fit; a server that cannot read its journal (exit code 2);
- a process that has died more than `--max_restart` times within `WINDOW_S`, or has ended with an error more often than
  that in a row, each time within `WINDOW_S` of its start.
"""

import time
from collections import defaultdict

from fleet.job.life import ProcessLife
from fleet.jobfiles.ending import UNUSABLE as UNUSABLE
from fleet.observe.stall.words import EXIT_CODE as STALLED

WINDOW_S = 600.0
EARLY_S = 30.0
NUM_EARLY = 3


class RestartPolicy:
    """Counts the deaths of the processes that one launcher looks after."""

    def __init__(self, max_restart: int | None) -> None:
        self._max_restart = max_restart
        """None: nobody is started again, the job is not durable."""
        self._deaths: defaultdict[str, list[float]] = defaultdict(list)
        """When each process died, within the last `WINDOW_S`."""
        self._num_early: defaultdict[str, int] = defaultdict(int)
        """How many lives in a row ended early by an exit code."""
        self._num_errors: defaultdict[str, int] = defaultdict(int)
        """How many lives in a row ended by an exit code, none of them long: slow mistakes come to an end, too."""
        self._excused: set[int] = set()

    def excuse(self, pid: int) -> None:
        """Do not count the death of this process: fleetrun itself is about to kill it."""
        self._excused.add(pid)

    def why_not(self, life: ProcessLife) -> str | None:
        """Count a death; why the process is not started again, "" where that needs no word, None if it is."""
        if self._max_restart is None:
            return ""
        if is_unfit(life):
            return f"{life.name} is not started again: it would meet the same"
        if life.role == "worker" and life.status == STALLED:
            return ""  # the report in its log says why, and the others have ended too
        if life.pid in self._excused:
            self._excused.discard(life.pid)
            return None
        assert life.status is not None
        assert life.exited_at is not None
        name, now = life.name, time.monotonic()
        lived_s = life.exited_at - life.started_at
        is_early = lived_s < EARLY_S
        self._num_errors[name] = self._num_errors[name] + 1 if lived_s < WINDOW_S and life.status > 0 else 0
        self._num_early[name] = self._num_early[name] + 1 if is_early and life.status > 0 else 0
        if self._num_early[name] >= NUM_EARLY:
            return (
                f"{name} is not started again: {NUM_EARLY} times in a row it has ended with an error within "
                f"{EARLY_S:.0f} s of its start"
            )
        deaths = self._deaths[name] = [at for at in self._deaths[name] if now - at < WINDOW_S] + [now]
        if len(deaths) > self._max_restart:
            times = "once" if len(deaths) == 1 else f"{len(deaths)} times"
            return (
                f"{name} is not started again: it has died {times} within {WINDOW_S / 60:.0f} minutes "
                f"(--max_restart {self._max_restart})"
            )
        if self._num_errors[name] > self._max_restart:
            return (
                f"{name} is not started again: {self._num_errors[name]} times in a row it has ended with an error "
                f"within {WINDOW_S / 60:.0f} minutes of its start (--max_restart {self._max_restart})"
            )
        return None

    def pause_s(self, life: ProcessLife) -> float:
        """How long its place stays empty: a worker with a mistake waits 1 s, then 2 s; everybody else nothing."""
        assert life.status is not None
        if life.role == "server" or life.status < 0:
            return 0.0
        return 2.0 ** max(0, self._num_early[life.name] - 1)


def is_unfit(life: ProcessLife) -> bool:
    """Whether it has refused what it was given, or was refused: its next life would be as well."""
    if life.role == "server":
        return life.status == UNUSABLE
    return (life.status or 0) > 0 and life.was_refused
