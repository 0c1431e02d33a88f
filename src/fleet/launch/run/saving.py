"""Workers are told to save and stop, because fleetrun was: by SIGUSR1, or SIGTERM where FLEET_GRACE_S is set."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import time

from fleet import env
from fleet.job.comebacks import how_it_died
from fleet.jobfiles.ending import SAVED
from fleet.launch.processes.child import Child
from fleet.launch.run.crew import Crew
from fleet.launch.run.outcome import RoundOutcome

log = logging.getLogger("fleetrun")


class SaveAndStop:
    """The workers of this machine, from the signal on."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._late_at = math.inf
        self.was_told = False
        """Whether the workers are to save and stop: then nobody else is started."""
        self._gone: set[Child] = set()

    @property
    def is_late(self) -> bool:
        """Whether the grace time is over."""
        return time.monotonic() > self._late_at

    def asks(self, number: int) -> bool:
        """Tell the workers, if that is what a signal to fleetrun means."""
        grace_s = env.FLEET_GRACE_S.get()
        if number != signal.SIGUSR1 and (number != signal.SIGTERM or grace_s is None or self._late_at < math.inf):
            return False
        self.was_told = True
        if number == signal.SIGTERM and grace_s is not None:
            self._late_at = time.monotonic() + grace_s
        running = [child for child in self._crew.workers if child.is_running]
        log.warning("%s: %d workers are to save and stop", signal.Signals(number).name, len(running))
        for child in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGUSR1)  # itself alone: what it has started need not know
        return True

    def has_ended(self, child: Child) -> bool:
        """Whether a worker has finished, or has saved and stopped."""
        return child.role == "worker" and child.status in (0, SAVED)

    def leaves(self, child: Child) -> bool:
        """Whether a worker of a durable job that has died stays away: it was to stop, and its disk has what it had."""
        if not self.was_told or child.role != "worker":
            return False
        log.warning("%s %s; not started again, as it was to stop", child.name, how_it_died(child.status or 0))
        self._gone.add(child)
        return True

    @property
    def outcome(self) -> RoundOutcome | None:
        """How the job ends once all workers of this machine have ended, and one has more to do in another run."""
        workers = self._crew.workers
        if not all(child in self._gone or self.has_ended(child) for child in workers):
            return None
        if all(child.status == 0 for child in workers):
            return None
        return RoundOutcome(SAVED, ("saved and stopped, as it was told to; the same command goes on from there",))
