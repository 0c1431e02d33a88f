"""Synchronous steps that go on without a worker: server 0 decides, and the workers tell the other servers.

A step that has waited for `strategy.wait_for_workers_s` is done on server 0 with the pushes it has. Workers push to
server 0 first in such a job; its answer says whose pushes the step was done with, and then they push to the others. So
every server does a step with the same pushes, even if a worker dies in between.
"""

import logging
import threading
import time
from collections.abc import Callable

from fleet.errors import FleetError, MovedError
from fleet.observe.waits.waiting import workers_text
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.core import EVERYBODY, Core

# How long between two looks at whether a step waits, at the most.
LOOK_S = 1.0

_log = logging.getLogger(__name__)


class AbsentWorkers:
    """Watches on server 0 whether the present step waits too long, and then goes on without absent workers."""

    def __init__(self, core: Core, apply_if_complete: Callable[[], int]) -> None:
        self._core = core
        self._apply = apply_if_complete
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to watch, if this is server 0 of a job that goes on without absent workers."""
        state = self._core.state
        holdings = state.holdings
        if self._thread is not None or holdings is None or not state.absent_after_ms:
            return
        if holdings.server == 0 and holdings.job.mode == "sync":
            self._thread = threading.Thread(target=self._look, name="fleet-absence", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        limit_s = self._core.state.absent_after_ms / 1000
        version, since = -1, 0.0
        while not self._is_closed.wait(min(LOOK_S, limit_s / 5)):
            with self._core.changed:
                rounds = self._core.state.rounds
                waits = bool(rounds.pushed())
                now = time.monotonic()
                if not waits or rounds.version != version:
                    version, since = rounds.version if waits else -1, now
            if version >= 0 and now - since >= limit_s:
                try:
                    self._go_on(version, limit_s)
                except MovedError:
                    return
                except FleetError as error:  # such as a full disk: the step still waits, and the next look tries again
                    _log.warning("step %d cannot go on without those it waits for: %s", version, error)
                    since = time.monotonic()

    def _go_on(self, version: int, limit_s: float) -> None:
        """Do a step without those who are missing, if it still waits."""
        core = self._core
        with core.gate.open():
            if core.door.is_shut:  # a cut: all servers must be at the same step now
                return
            with core.changed:
                rounds = core.state.rounds
                if rounds.version != version:
                    return
                missing = rounds.missing()
                for worker in missing:
                    left = ps_pb2.LeaveRequest.Header(caller=ps_pb2.Caller(worker=worker), is_absent=True)
                    core.change(Kind.LEAVE, [RecordPart(left.SerializeToString())])
                core.tell(EVERYBODY)
            if missing:
                _log.warning(
                    "step %d has waited %g s for %s, and goes on without; it is let in again when it comes back",
                    *(version, limit_s, workers_text(missing)),
                )
            self._apply()
