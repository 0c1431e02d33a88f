"""What a server would lose if it died, and all that can happen to it: one method for each kind of change.

A change comes from a request, or is read back from a journal; either way it is made here. The caller locks.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fleet.errors import NotReadyError
from fleet.ps.held.holdings import Holdings, Skip, make_holdings, none
from fleet.ps.held.stats import Stats
from fleet.ps.job.corrections import factor_of
from fleet.ps.job.patience import is_durable
from fleet.ps.job.spec import JobSpec
from fleet.ps.meetings.meetings import Meetings
from fleet.ps.meetings.pieces import PieceQueues
from fleet.ps.steps.ages import Ages
from fleet.ps.steps.clock import Clock
from fleet.ps.steps.ledger import Ledger
from fleet.ps.steps.rounds import Rounds

if TYPE_CHECKING:
    from fleet.ps.held.changed_keys import DeletedKeyFiles
    from fleet.ps.held.requests import AssignedRows, PushedUpdate
    from fleet.ps.proto import ps_pb2

# How many loads are remembered.
NUM_LOADS = 16


class ServerState:
    """All that one server must not lose."""

    def __init__(self, instance: int, lock: threading.RLock) -> None:
        self.instance = instance
        """This server's name for itself, also after it was started again, if it has a journal."""
        self.run = 0
        """A number that server 0 drew when the job began, and all others were told; 0: not yet known."""
        self.holdings: Holdings | None = None
        self.ledger = Ledger(0)
        self.rounds = Rounds(0)
        self.clock = Clock(0, is_common=True)
        self.ages = Ages()
        self.meetings = Meetings(lock, is_durable=is_durable())
        self.pieces = PieceQueues()
        self.stats = Stats()
        self.absent_after_ms = 0
        """How long a step waits for a worker before it is done without it; 0: as long as calls wait."""
        self.loads: dict[int, tuple[int, int]] = {}
        """The last loads by their names, with rows and version: one that comes again must not undo what followed it."""
        self._time_lock = threading.Lock()

    @property
    def held(self) -> Holdings:
        """The holdings, where there must be some."""
        if self.holdings is None:
            raise NotReadyError("no worker has declared a job yet")
        return self.holdings

    def begin(self, holdings: Holdings, run: int) -> None:
        """The first worker has declared the job."""
        job = holdings.job
        self.holdings, self.run = holdings, run
        self.ledger, self.rounds = Ledger(job.num_workers), Rounds(job.num_workers)
        self.clock = Clock(job.num_workers, is_common=job.mode == "sync")

    def greet(self, worker: int, incarnation: int, life: int) -> None:
        """A worker begins a life."""
        if self.ledger.greet(worker, incarnation, life):
            self.rounds.join(worker)
            self.clock.begin(worker)
            self.meetings.forget(worker)

    def push(self, update: PushedUpdate, skip: Skip = none) -> int:
        """Apply a push by itself; how many rows and groups were skipped for a NaN or an Inf."""
        skipped = self.held.apply_mean([update], self._time_of(update), skip)
        self.ledger.note(update.worker, update.steps, update.position)
        return skipped

    def assign(self, rows: AssignedRows, skip: Skip = none) -> int:
        """Write rows by value, as old as the last push; how many others the table's ceiling deleted for them."""
        with self._time_lock:
            now = self.clock.now
        return self.held.assign(rows, now, skip)

    def step(self, updates: Sequence[PushedUpdate], skip: Skip = none, squared_norm: float = 0.0) -> int:
        """Apply the pushes of a complete step, which come in the order of the workers; passes change nothing.

        `squared_norm` is that of their mean on all servers, where the job limits it.
        """
        trained = [update for update in updates if not update.is_pass]
        step, factor = self._time_of(updates[0]), factor_of(self.held.job.clip_norm, squared_norm)
        skipped = self.held.apply_mean(trained, step, skip, factor) if trained else 0
        for update in updates:
            self.ledger.note(update.worker, update.steps, update.position)
        self.rounds.note(updates)
        return skipped

    def leave(self, worker: int, *, is_unfinished: bool, is_absent: bool = False) -> None:
        """A worker has finished, or has ended otherwise, or is not waited for any more."""
        if is_absent:
            self.rounds.absent.add(worker)
        else:
            self.rounds.leave(worker, is_unfinished=is_unfinished)

    def put_in_steps(self, asked: ps_pb2.ShrinkRequest.Header) -> None:
        """Turn the seconds of a request into steps: a journal may be read at another time."""
        if asked.unseen_s > 0:
            with self._time_lock:
                asked.unseen_steps = self.ages.unseen_steps(asked.unseen_s, self.clock.now)
            asked.unseen_s = 0.0

    def shrink(
        self, asked: ps_pb2.ShrinkRequest.Header, skip: Skip = none, listing: DeletedKeyFiles | None = None
    ) -> tuple[int, int]:
        """Delete rows; how many, and how many stay. `listing`: where to write their keys."""
        return self.held.shrink(asked, self.clock.now, skip, listing)

    def loaded(self, version: int, name: int = 0, rows: int = 0) -> None:
        """A checkpoint has replaced what the server holds; what was collected of a step does not fit it."""
        if name:
            self.loads[name] = rows, version
            self.loads = dict(list(self.loads.items())[-NUM_LOADS:])
        self.rounds.drop()
        self.rounds.version = version
        newest = max((table.newest_step for table in self.held.tables), default=0)
        self.clock.set(max(version if self.held.job.mode == "sync" else 0, newest))

    def to_json(self) -> dict[str, Any]:
        """Everything but tables, dense parameters and kept tensors."""
        holdings = self.held
        return {
            "instance": self.instance,
            "run": self.run,
            "absent_after_ms": self.absent_after_ms,
            "loads": [(name, *loaded) for name, loaded in self.loads.items()],
            "server": holdings.server,
            "job": holdings.job.to_json(),
            "is_started": holdings.is_started,
            "skipped": holdings.skipped,
            "ledger": self.ledger.to_json(self.rounds.pending()),
            "rounds": self.rounds.to_json(),
            "clock": self.clock.to_json(),
            "ages": self.ages.to_json(),
            "meetings": self.meetings.to_json(),
            "pieces": self.pieces.to_json(),
            "stats": self.stats.counts(),
        }

    def restore(self, saved: dict[str, Any], device: str) -> Holdings:
        """Go on as a snapshot says; its tables and dense parameters are for the caller to fill."""
        self.instance = int(saved["instance"])
        self.absent_after_ms = int(saved["absent_after_ms"])
        self.loads = {int(name): (int(rows), int(version)) for name, rows, version in saved["loads"]}
        holdings = make_holdings(JobSpec.from_json(saved["job"]), int(saved["server"]), device)
        holdings.skipped = int(saved["skipped"])
        self.begin(holdings, int(saved["run"]))
        self.ledger.restore(saved["ledger"])
        self.rounds.restore(saved["rounds"])
        self.clock.restore(saved["clock"])
        self.ages.restore(saved.get("ages", ()))
        self.meetings.restore(saved["meetings"])
        self.pieces.restore(saved["pieces"])
        self.stats.restore(saved["stats"])
        return holdings

    def adopt(self, saved: dict[str, Any]) -> None:
        """Go on as other servers have left it; what this one holds stays, and so does its name for itself."""
        self.run, self.held.skipped = int(saved["run"]), int(saved["skipped"])
        self.absent_after_ms = int(saved["absent_after_ms"])
        self.loads = {int(name): (int(rows), int(version)) for name, rows, version in saved["loads"]}
        self.ledger.restore(saved["ledger"])
        self.rounds.restore(saved["rounds"])
        self.clock.restore(saved["clock"])
        self.ages.restore(saved.get("ages", ()))
        self.meetings.restore(saved["meetings"])
        self.pieces.restore(saved["pieces"])
        self.stats.restore(saved["stats"])

    def _time_of(self, update: PushedUpdate) -> int:
        with self._time_lock:
            step = self.clock.time_of(update.worker, update.step)
            self.ages.note(self.clock.now)
            return step
