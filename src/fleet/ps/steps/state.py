"""What a server would lose if it died, and all that can happen to it: one method for each kind of change.

A change comes from a request, or is read back from a journal; either way it is made here (`changes`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.errors import NotReadyError
from fleet.ps.held.holdings import Holdings, Skip, make_holdings, none
from fleet.ps.held.requests import PushedUpdate, PushOutcome
from fleet.ps.held.stats import Stats
from fleet.ps.held.touched import MARKS, Touched
from fleet.ps.job.clip_factor import factor_of
from fleet.ps.job.patience import is_durable
from fleet.ps.job.spec import JobSpec
from fleet.ps.meetings.meetings import Meetings
from fleet.ps.meetings.pieces import PieceQueues
from fleet.ps.steps.ages import Ages
from fleet.ps.steps.clock import Clock
from fleet.ps.steps.ledger import Ledger
from fleet.ps.steps.rounds import Rounds

if TYPE_CHECKING:
    from fleet.ps.held.requests import AssignedRows
    from fleet.ps.proto import ps_pb2


class PublishTo(NamedTuple):
    """Where a server publishes its changes to, for those who serve."""

    url: str = ""
    """Empty: nowhere."""
    every_s: float = 0.5


class ServerState:
    """All that one server must not lose."""

    def __init__(self, instance: int, lock: threading.RLock, device: str = "cpu") -> None:
        self.lock = lock
        """Guards everything but tables, dense parameters and ledger, which guard themselves."""
        self.device = device
        """Where dense parameters live."""
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
        self.touched = Touched()
        """Which keys have changed, for those who want to know."""
        self.absent_after_ms = 0
        """How long a step waits for a worker before it is done without it; 0: as long as calls wait."""
        self.publish = PublishTo()
        self.num_forgotten = 0
        """How often rows were forgotten: what is published must be of the last time."""
        self.forgotten_at = 0
        """The record of the last time, as long as a journal may have it."""
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
        self.touched = Touched(holdings.tables)
        self.ledger = Ledger(job.num_workers)
        self.rounds = Rounds(job.num_workers, is_elastic=job.is_elastic, follows=holdings.server > 0)
        self.pieces.is_elastic = job.is_elastic
        self.clock = Clock(job.num_workers, is_common=job.mode == "sync")

    def greet(self, worker: int, incarnation: int, life: int, *, has_left: bool = False) -> None:
        """A worker begins a life; no step waits for one that has left."""
        if self.ledger.greet(worker, incarnation, life):
            if has_left:
                self.rounds.withdraw(worker)
            else:
                self.rounds.join(worker)
            self.clock.begin(worker)
            self.meetings.forget(worker)

    def push(self, update: PushedUpdate, skip: Skip = none) -> PushOutcome:
        """Apply a push by itself, and count it.

        Not one whose steps are here already, from a life of its worker that was lost before other servers had them.
        """
        if self.ledger.has_steps(update.worker, update.steps):
            return PushOutcome(is_new=False)
        skipped = self.held.apply_mean([update], self._time_of(update), skip)
        self.ledger.note(update.worker, update.steps, update.position)
        staleness = 0
        with self.lock:
            if update.has_gradients:
                staleness = max(0, self.rounds.version - update.pulled_version)
            self.rounds.version += 1
        self.stats.pushed(update, staleness, skipped)
        return PushOutcome(is_new=True, staleness=staleness, skipped=skipped)

    def assign(self, rows: AssignedRows, skip: Skip = none) -> int:
        """Write rows by value, as old as the last push; how many others the table's ceiling deleted for them."""
        with self._time_lock:
            now = self.clock.now
        return self.held.assign(rows, now, skip)

    def forget(self, asked: ps_pb2.ForgetRequest.Header, skip: Skip = none) -> tuple[int, int]:
        """Forget rows, and that somebody wanted to know of them; how many, and how many keys waited for one."""
        counts = self.held.forget(asked, skip)
        if not skip(MARKS):
            self.touched.clear()
        self.num_forgotten += 1
        return counts

    def step(self, updates: Sequence[PushedUpdate], squared_norm: float = 0.0, skip: Skip = none) -> int:
        """Apply the pushes of a complete step, which come in the order of the workers, and begin the next one.

        Passes change nothing. `squared_norm` is that of their mean on all servers, where the job limits it. Returns
        how many rows and groups were skipped for a NaN or an Inf.
        """
        trained, job = [update for update in updates if not update.is_pass], self.held.job
        scale = len(trained) if job.is_summed else 1
        time, factor = self._time_of(updates[0]), scale * factor_of(job.clip_norm, scale**2 * squared_norm)
        skipped = self.held.apply_mean(trained, time, skip, factor) if trained else 0
        # Pushes are counted with what they change, or a snapshot would have one without the other.
        for update in updates:
            self.ledger.note(update.worker, update.steps, update.position)
            self.stats.pushed(update, 0, skipped if update is updates[0] else 0)
        with self.lock:
            if squared_norm:
                self.rounds.sum = self.rounds.version, squared_norm
            self.rounds.note(updates)
            self.rounds.advance()
        return skipped

    def leave(self, told: ps_pb2.LeaveRequest.Header) -> None:
        """A worker has finished, or has ended otherwise, or is not waited for any more."""
        worker = told.caller.worker
        with self.lock:
            if told.is_absent:
                self.rounds.absent.add(worker)
            else:
                self.rounds.leave(worker, is_unfinished=told.is_unfinished, is_drained=told.is_drained)
        if told.is_drained:
            self.ledger.forget_position(worker)
            with self.pieces.lock:
                self.pieces.hand_back(worker, told.back)
        elif self.pieces.is_elastic and not (told.is_absent or told.is_unfinished):
            with self.pieces.lock:
                self.pieces.leave(worker)

    def put_in_steps(self, asked: ps_pb2.ShrinkRequest.Header) -> None:
        """Turn the seconds of a request into steps: a journal may be read at another time."""
        if asked.unseen_s > 0:
            with self._time_lock:
                asked.unseen_steps = self.ages.unseen_steps(asked.unseen_s, self.clock.now)
            asked.unseen_s = 0.0

    def loaded(self, version: int) -> None:
        """A checkpoint has replaced what the server holds; what was collected of a step does not fit it."""
        with self.lock:
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
            "publish": list(self.publish),
            "forgotten": self.num_forgotten,
        }

    def restore(self, saved: dict[str, Any]) -> Holdings:
        """Go on as a snapshot says; its tables and dense parameters are for the caller to fill."""
        self.instance = int(saved["instance"])
        holdings = make_holdings(JobSpec.from_json(saved["job"]), int(saved["server"]), self.device)
        self.begin(holdings, int(saved["run"]))
        self.adopt(saved)
        return holdings

    def adopt(self, saved: dict[str, Any]) -> None:
        """Go on as other servers have left it; what this one holds stays, and so does its name for itself."""
        self.run, self.held.skipped = int(saved["run"]), int(saved["skipped"])
        self.absent_after_ms = int(saved["absent_after_ms"])
        self.ledger.restore(saved["ledger"])
        self.rounds.restore(saved["rounds"])
        self.clock.restore(saved["clock"])
        self.ages.restore(saved.get("ages", ()))
        self.meetings.restore(saved["meetings"])
        self.pieces.restore(saved["pieces"])
        self.stats.restore(saved["stats"])
        self.publish = PublishTo(*saved.get("publish", ()))
        self.num_forgotten = int(saved.get("forgotten", 0))

    def _time_of(self, update: PushedUpdate) -> int:
        with self._time_lock:
            step = self.clock.time_of(update.worker, update.step)
            self.ages.note(self.clock.now)
            return step
