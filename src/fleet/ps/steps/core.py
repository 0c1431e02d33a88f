"""What all calls of one server share: its state, the locks around it, its journal, and who may call.

Locks are taken in one order everywhere: the gate, a worker's in the ledger, `applying`, `changed`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from fleet.errors import CheckpointError, CommunicationError, DeadlineError, MovedError, NotReadyError, UsageError
from fleet.ps.held.holdings import Holdings, none
from fleet.ps.held.touched import TableKeys, mark_part
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.journal.writer import JournalWriteError
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.changes import CHANGES
from fleet.ps.steps.door import PushDoor
from fleet.ps.steps.gate import StateGate
from fleet.ps.steps.missing_workers import forsaken, loaded_meanwhile, too_late
from fleet.ps.steps.state import ServerState
from fleet.ps.wire import callers
from fleet.ps.wire.status import FailedServerError

if TYPE_CHECKING:
    from fleet.ps.durable.durability import Durability

T = TypeVar("T")

EVERYBODY = -2
"""In place of a worker: all that wait."""


class Core:
    """The state of one server, and what guards it."""

    def __init__(self, device: str = "cpu") -> None:
        self.gate = StateGate()
        """Open around every change and its record; closed while nothing may change, or everything does."""
        self.door = PushDoor()
        """Where new pushes wait while a cut is made."""
        self.applying = threading.Lock()
        """One step is applied at a time."""
        self._lock = threading.RLock()
        self.changed = threading.Condition(self._lock)
        """Guards the state but tables and dense parameters, which guard themselves; notified of each new version."""
        self.state = ServerState(time.time_ns(), self._lock, device)
        self.durability: Durability | None = None
        self.is_closed = False
        self._failure: str | None = None
        self._passes = False
        """Whether what has failed is tried again by who has asked for it."""
        self.is_torn = threading.Event()
        """Set when a change that the journal has was not made here: the server ends, and replays its journal."""
        self.publish: Callable[[int | None], None] | None = None
        """Tells native code, where it answers for this server, what has changed: `fleet.ps.server.plane_server`."""
        self.copied: Callable[[int], None] = lambda _: None
        """Tells it which records the copy of this server has."""
        self.data_port = 0
        """The port at which native code answers other machines; 0: none."""
        self.is_moved = False
        """Whether other servers have taken the place of this one and its like."""
        self.term = 0
        """In a job whose servers have copies: the newest term that this process goes by."""
        self.admit: Callable[[int], None] = lambda _: None
        """Called with the term that a caller goes by; raises if this is no server in that term."""
        self.is_copy = False
        """Whether this is the copy of a server, which nobody may call."""

    @property
    def failure(self) -> str | None:
        """Why no step can be completed any more; None: it can."""
        return self._failure

    @failure.setter
    def failure(self, why: str | None) -> None:
        self._failure, self._passes = why, False
        self.tell(EVERYBODY)

    def fail_for_now(self, why: str) -> None:
        """Take nothing until what has failed comes again, and succeeds; callers are told to come again, too."""
        self._failure, self._passes = why, True
        self.tell(EVERYBODY)

    def tell(self, whom: int | None = None) -> None:
        """Have calls that wait look again: the version has changed or, with `whom`, something else.

        `whom` is the worker whose calls that concerns, or EVERYBODY.
        """
        with self.changed:
            self.changed.notify_all()
            if whom is not None:
                self.state.meetings.look(whom)
            if self.publish is not None:
                self.publish(whom)

    def record(self, kind: Kind, parts: Sequence[RecordPart]) -> None:
        """Put a change that is about to be made into the journal, if there is one."""
        if self.durability is not None:
            self.durability.append(kind, parts)

    def change(self, kind: Kind, parts: Sequence[RecordPart], asked: Any = None) -> Any:
        """Make a change of the table of changes: check it, record it, apply it; what applying it returns.

        `asked`: what its parts ask for, if they have been read already. The caller is inside the gate.
        """
        change = CHANGES[kind]
        if asked is None:
            asked = change.read(self.state, parts)
        if change.needs_whole:
            self.refuse_failed()
        change.check(self.state, asked)
        self.record(kind, parts)
        try:
            return change.apply(self.state, asked, none)
        except Exception as error:
            what = f"{kind.name.lower()} failed half-way on this server: {error}"
            if self.durability is None:
                self.failure = f"{what}; load a checkpoint"
                raise
            self.is_torn.set()
            self.failure = f"{what}; it starts again, and makes that from its journal"
            self.refuse_failed()

    def mark(self, tracked: ps_pb2.Tracked) -> Sequence[TableKeys]:
        """What changed in each table since the parent of a save that is part of a chain. Within the closed gate."""
        if not tracked.mark:
            return ()
        part = mark_part(f"saves into {tracked.chain}", tracked.parent, tracked.mark)
        found: Sequence[TableKeys] = self.change(Kind.MARK, [part])
        return found

    def once(
        self,
        caller: ps_pb2.Caller,
        sequence: int,
        make: Callable[[], T],
        enter: Callable[[], AbstractContextManager[None]],
    ) -> tuple[bool, T | None] | None:
        """Make a change that has a number inside the gate, unless it was made: whether it is new, and what came of it.

        None if a cut keeps it waiting for long; then it may be sent again. `enter` leads into the gate.
        """
        claim = caller.worker, caller.incarnation, sequence
        while True:
            if self.door.is_shut:
                if not self.door.wait(*claim):
                    return None
                self.known(caller)  # the server may be stopping
            with enter():
                is_shut = self.door.is_shut
                if is_shut and not self.door.admits(*claim):  # a cut has begun since
                    continue
                with self.state.ledger.once(*claim) as is_new:
                    made = make() if is_new else None
                break
        if is_shut:
            for told in self.door.entered:
                told()
        return is_new, made

    def alone(self) -> AbstractContextManager[None]:
        """Within this nothing else changes."""
        return self.gate.closed

    def undisturbed(self) -> AbstractContextManager[None]:
        """Within this nothing else changes, and no snapshot is written: for `replace`."""
        return self.gate.closed if self.durability is None else self.durability.undisturbed()

    def replace(self, load: Callable[[], None], undo: Callable[[], None] | None = None) -> None:
        """Replace everything by what `load` brings, within `undisturbed`: what comes of it is kept as a snapshot.

        If that cannot be kept, `undo` is called. Without it nothing is taken until it comes again, and is kept.
        """
        load()
        if self.durability is not None and (why := self.durability.keep_whole()) is not None:
            failure = f"a checkpoint was loaded, but could not be kept: {why}; make room in {self.durability.folder}"
            if undo is not None:
                undo()
                raise CheckpointError(f"{failure}, and load it again")
            self.fail_for_now(failure)
            raise JournalWriteError(failure)

    @property
    def awaited(self) -> int:
        """The record that a copy must have before anybody is told of what has changed until now; 0: none."""
        return 0 if self.durability is None else self.durability.copied.awaited

    def wait_for_copy(self) -> None:
        """Return when a copy has what has changed until now, where it must: somebody is about to be told."""
        if self.durability is not None and (lsn := self.awaited):
            self.durability.copied.wait(lsn)

    @property
    def keeps_pushes(self) -> bool:
        """Whether pushes of a synchronous step are recorded when they come, and it is applied when all servers have it.

        So it is where servers have copies: a worker may be lost, with what it had sent to some of them only.
        """
        job = self.state.held.job
        return self.term > 0 and job.mode == "sync" and job.num_servers > 1

    def begin_anew(self) -> None:
        """Forget everything: a copy is about to be filled. Under the closed gate."""
        native = self.state.stats.native
        self.state = ServerState(time.time_ns(), self._lock, self.state.device)
        self.state.stats.native = native

    def move(self) -> None:
        """Other servers have taken the place of this one: nothing changes here any more, and callers are told."""
        self.is_moved = True  # first: who waits for a copy may hold the lock
        with self.changed:
            self.gate.refusal = self.refuse_moved
            self.tell(EVERYBODY)

    def refuse_moved(self) -> None:
        """MovedError if other servers have taken the place of this one."""
        if self.is_moved:
            raise MovedError("the rows have moved to other servers")

    def known(self, caller: ps_pb2.Caller) -> Holdings:
        """The holdings, if the caller belongs to the job they were made for."""
        if self.is_closed:
            stopping = CommunicationError("the server is stopping")
            stopping.retryable = self.durability is not None  # its next life answers
            raise stopping
        self.refuse_moved()
        holdings = self.state.holdings
        if holdings is None or caller.instance not in (0, self.state.instance):
            lost = "it was started again and has lost its tables; start the job again from a checkpoint"
            raise NotReadyError(lost if caller.instance else "no worker has declared a job yet")
        if caller.worker >= holdings.job.num_workers:
            raise UsageError(f"worker {caller.worker} does not exist in a job of {holdings.job.num_workers} workers")
        self.state.ledger.check(caller.worker, caller.incarnation)
        return holdings

    def wait_for(
        self,
        holdings: Holdings,
        caller: ps_pb2.Caller,
        version: int,
        timeout_ms: int,
        *,
        wants_dense: bool,
        num_dropped: int | None = None,
    ) -> int:
        """Return the version when it is the wanted one, and dense parameters are there if they are wanted.

        `num_dropped`: how many steps had been dropped when the caller began, if it counts on the present one.
        """
        found: list[int] = []

        def is_over() -> bool:
            reached = self.reached(holdings, caller, version, wants_dense=wants_dense, num_dropped=num_dropped)
            if reached is not None:
                found.append(reached)
            return reached is not None

        with self.changed:
            if not callers.wait_for(self.changed, is_over, timeout_ms / 1000):
                raise DeadlineError(too_late(holdings, self.state.rounds, timeout_ms))
        return found[-1]

    def reached(
        self,
        holdings: Holdings,
        caller: ps_pb2.Caller,
        version: int,
        *,
        wants_dense: bool,
        num_dropped: int | None = None,
    ) -> int | None:
        """One look of `wait_for`, under `changed`: the version, or None while it has not been reached."""
        rounds = self.state.rounds
        if self.is_closed:
            raise CommunicationError("the server is stopping")
        self.refuse_moved()
        self.refuse_failed()
        self.state.ledger.check(caller.worker, caller.incarnation)
        if num_dropped is not None and rounds.num_dropped > num_dropped:
            raise loaded_meanwhile(caller.worker, version - 1)
        if (holdings.is_started or not wants_dense) and rounds.version >= version:
            return rounds.version
        if num_dropped is not None and rounds.version < version and caller.worker not in rounds.pushed():
            raise loaded_meanwhile(caller.worker, version - 1)  # it had been taken before
        if (why := forsaken(holdings, rounds)) is not None:
            raise CommunicationError(why)
        return None

    def refuse_failed(self) -> None:
        """FailedServerError if no step can be completed any more, unless this server is started again."""
        if self.failure is not None:
            error = FailedServerError(self.failure)
            error.retryable = self._passes or self.is_torn.is_set()
            raise error

    def close(self) -> None:
        """Let calls that wait end with an error."""
        self.is_closed = True  # first: who waits for a copy may hold the lock
        with self.changed:
            self.tell(EVERYBODY)
