"""A signal that means save and stop: SIGUSR1, and SIGTERM where FLEET_GRACE_S says how long that may take.

It is obeyed between two steps of a loop over `fleet.data` or `fleet.steps`. In a durable job nothing need be saved:
servers and workers have everything on their disks, and a worker ends as soon as what it has queued is sent. In any
other job its `fleet.Checkpoint` is saved, by all workers at one step, so all of them must be told: the first step that
none of them can be past when the last one has said where it is. Who cannot end within the grace time ends as without.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from fleet import env
from fleet.jobfiles.ending import SAVED, note_now
from fleet.observe.metrics.steps import steps

GRACE_S = 60.0
"""How long it may take where FLEET_GRACE_S does not say."""
AHEAD = 2
"""How many steps a worker may at most be ahead of one that it waits for in every step, and of what it knows of it."""

log = logging.getLogger(__name__)


class Stopping:
    """What this process does when it is told to save and stop."""

    def __init__(self) -> None:
        self._save: Callable[[], bool] | None = None
        self._before: dict[int, Any] = {}
        self._told: int | None = None
        self._timer: threading.Timer | None = None
        self._pid = 0

    def begin(self, save: Callable[[], bool]) -> None:
        """From now on a signal has `save` called between steps, until that says that all is saved: then all ends.

        What the script itself does about these signals stays, and so does everything outside the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        self._save, self._pid = save, os.getpid()
        numbers = [signal.SIGUSR1]
        if env.FLEET_GRACE_S.get() is not None and not env.is_under_fleetrun():  # which asks by SIGUSR1
            numbers.append(signal.SIGTERM)
        for number in numbers:
            if number not in self._before and signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.signal(number, self._tell)

    def end(self) -> None:
        """There is nothing to save any more: a signal means what it did before."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._before.clear()
            self._save, steps.between = None, None

    def _tell(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a child that was forked, such as one that loads data
            if number == signal.SIGTERM:
                os._exit(128 + number)
            return
        if self._told is None:
            self._told, grace_s = number, env.FLEET_GRACE_S.get() or GRACE_S
            self._timer = threading.Timer(grace_s, self._give_up, [grace_s])
            self._timer.daemon = True
            self._timer.start()
            steps.between = self._look

    def _look(self) -> None:
        if self._save is None or not self._save():
            return
        if self._timer is not None:
            self._timer.cancel()
        log.warning("told by %s to stop: saved, exit code %d", signal.Signals(self._told or 0).name, SAVED)
        sys.exit(SAVED)

    def _give_up(self, grace_s: float) -> None:
        number = self._told or 0
        log.warning("told by %s to stop: nothing could be saved within %g s", signal.Signals(number).name, grace_s)
        note_now()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + number)


stopping = Stopping()
"""That of this process."""
