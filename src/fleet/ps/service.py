"""What a server does, without any network: tables, dense parameters, steps. One instance is one server.

A service knows no model. The first worker that declares the job makes the tables; every other declaration must agree
with it. In synchronous mode pushes of a step are collected and applied once, when all have come; in every other mode
a push is applied when it arrives.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import CommunicationError, DeadlineError, NotReadyError, UsageError
from fleet.ps import presence, storage
from fleet.ps.holdings import Holdings, make_holdings
from fleet.ps.ledger import Ledger
from fleet.ps.meetings import Meetings
from fleet.ps.proto import ps_pb2
from fleet.ps.rounds import Rounds
from fleet.ps.saves import Saves
from fleet.ps.spec import JobSpec, difference
from fleet.ps.stats import Stats
from fleet.ps.update import PushedUpdate, TablePull, Taken, read_dense, read_kept, read_pull, read_push
from fleet.ps.waiting import awaited_by_all, forsaken, too_late

if TYPE_CHECKING:
    import numpy as np
    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from fleet.ps.wire import Tensors

Answered = tuple["Message", "Tensors"]
Opening = Callable[[JobSpec, int], "Sequence[NDArray[np.float32]] | None"]
"""Asked when the first worker declares a job, with the server's index: the first values of the dense groups, if any."""


class Service:
    """One server. `handle` is called from many threads."""

    def __init__(
        self, device: str = "cpu", model_dir: str | Path | None = None, opening: Opening | None = None
    ) -> None:
        self.finished = threading.Event()
        """Set when no worker is left."""
        self._device = device
        self._opening = opening
        self._model_dir = None if model_dir is None else storage.checked_folder(model_dir)
        self._instance = time.time_ns()
        self._changed = threading.Condition()  # guards what follows, and is notified of each new version
        self._applying = threading.Lock()  # one step is applied at a time
        self._is_closed = False
        self._failure: str | None = None  # why no step can be completed any more
        self._holdings: Holdings | None = None
        self._ledger = Ledger(0)
        self._rounds = Rounds(0)
        self._stats = Stats()
        self._meetings = Meetings(self._changed)
        self._saves = Saves(self._applying)
        self._methods: dict[str, Callable[[Any, Tensors], Answered]] = {
            "Declare": self._declare,
            "Start": self._start,
            "Keep": self._keep,
            "Pull": self._pull,
            "Push": self._push,
            "Leave": self._leave,
            "Save": self._save,
            "Load": self._load,
            "Meet": self._meet,
            "Shrink": self._shrink,
            "Stats": self._report,
        }

    def handle(self, method: str, header: Message, tensors: Tensors) -> Answered:
        """Answer one call; see fleet.ps.transport.Handler."""
        function = self._methods.get(method)
        if function is None:
            raise UsageError(f"there is no method {method!r}")
        return function(header, tensors)

    def close(self) -> None:
        """Let calls that wait end with an error."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # Declaration.

    def _declare(self, header: ps_pb2.DeclareRequest.Header, _: Tensors) -> Answered:
        job = JobSpec.from_json(header.job)
        caller = header.caller
        if caller.worker >= job.num_workers:
            raise UsageError(f"worker {caller.worker} does not exist in a job of {job.num_workers} workers")
        if header.server_index >= job.num_servers:
            raise UsageError(f"server {header.server_index} does not exist in a job of {job.num_servers} servers")
        with self._changed:
            holdings = self._holdings
            if holdings is None:
                holdings = self._begin(job, header.server_index)
            elif (what := difference(job, holdings.job)) is not None:
                raise UsageError(f"worker {caller.worker} does not agree with the job: {what}")
            elif header.server_index != holdings.server:
                raise UsageError(
                    f"worker {caller.worker} takes this server for server {header.server_index}, others for "
                    f"server {holdings.server}; give every worker the same list of servers"
                )
        # Locks are taken in one order everywhere: the worker's in the ledger, then _applying, then _changed. While a
        # step is being applied nobody joins, or its first push would be thrown away with those that are done.
        is_new = self._ledger.greet(caller.worker, caller.incarnation)
        with self._applying, self._changed:
            if is_new:
                self._rounds.join(caller.worker)
                self._meetings.forget(caller.worker)
                self._changed.notify_all()  # its former life may wait for a step
            version = self._rounds.version
        reply = ps_pb2.DeclareReply.Header(
            instance=self._instance,
            is_started=holdings.is_started,
            version=version,
            model_dir="" if self._model_dir is None else str(self._model_dir),
        )
        return reply, ()

    def _begin(self, job: JobSpec, server: int) -> Holdings:
        holdings = make_holdings(job, server, self._device)
        self._ledger, self._rounds = Ledger(job.num_workers), Rounds(job.num_workers)
        values = None if self._opening is None else self._opening(job, server)
        if self._model_dir is not None:
            self._rounds.version = storage.load(holdings, self._model_dir).version
        elif values is not None:
            holdings.start(values)
        self._holdings = holdings
        return holdings

    def _known(self, caller: ps_pb2.Caller) -> Holdings:
        """The holdings, if the caller belongs to the job they were made for."""
        if self._is_closed:
            raise CommunicationError("the server is stopping")
        holdings = self._holdings
        if holdings is None or caller.instance not in (0, self._instance):
            lost = "it was started again and has lost its tables; start the job again from a checkpoint"
            raise NotReadyError(lost if caller.instance else "no worker has declared a job yet")
        if caller.worker >= holdings.job.num_workers:
            raise UsageError(f"worker {caller.worker} does not exist in a job of {holdings.job.num_workers} workers")
        self._ledger.check(caller.worker, caller.incarnation)
        return holdings

    def _start(self, header: ps_pb2.StartRequest.Header, tensors: Tensors) -> Answered:
        holdings = self._known(header.caller)
        job, server, num_groups = holdings.job, holdings.server, len(holdings.groups)
        values = read_dense(tensors[:num_groups], job, server, "first values")
        kept = read_kept(tensors[num_groups:], job, server, "first values")
        with self._changed:
            if not holdings.is_started:
                holdings.start(values, kept)
                self._changed.notify_all()
        return ps_pb2.StartReply.Header(), ()

    def _keep(self, header: ps_pb2.KeepRequest.Header, tensors: Tensors) -> Answered:
        holdings = self._known(header.caller)
        holdings.keep(read_kept(tensors, holdings.job, holdings.server, f"worker {header.caller.worker}"))
        return ps_pb2.KeepReply.Header(), ()

    # Training.

    def _pull(self, header: ps_pb2.PullRequest.Header, tensors: Tensors) -> Answered:
        holdings = self._known(header.caller)
        pulls = read_pull(header, tensors, holdings.job)
        wants_dense = header.dense or header.kept
        version = self._wait_for(holdings, header.caller, header.version, header.timeout_ms, wants_dense=wants_dense)
        rows = self._pulled(holdings, pulls)
        if header.dense:
            rows += holdings.read_dense()
        if header.kept:
            rows += holdings.kept
        return ps_pb2.PullReply.Header(version=version), rows

    def _wait_for(
        self, holdings: Holdings, caller: ps_pb2.Caller, version: int, timeout_ms: int, *, wants_dense: bool
    ) -> int:
        """Return the version when it is the wanted one, and dense parameters are there if they are wanted."""

        def is_reached() -> bool:
            return (holdings.is_started or not wants_dense) and self._rounds.version >= version

        def is_over() -> bool:
            is_refused = self._is_closed or self._failure is not None
            is_past = not self._ledger.is_present(caller.worker, caller.incarnation)
            return is_refused or is_past or is_reached() or forsaken(holdings, self._rounds) is not None

        with self._changed:
            if not presence.wait_for(self._changed, is_over, timeout_ms / 1000):
                raise DeadlineError(too_late(holdings, self._rounds, timeout_ms))
            if self._is_closed:
                raise CommunicationError("the server is stopping")
            self._refuse_failed()
            self._ledger.check(caller.worker, caller.incarnation)
            if not is_reached():
                raise CommunicationError(forsaken(holdings, self._rounds))
            return self._rounds.version

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise CommunicationError(self._failure)

    def _push(self, header: ps_pb2.PushRequest.Header, tensors: Tensors) -> Answered:
        holdings = self._known(header.caller)
        update, pulls = read_push(header, tensors, holdings.job, holdings.server)
        taken = self._take(holdings, header, update)
        version = self._rounds.version
        if holdings.job.mode == "sync" and header.timeout_ms:
            version = self._wait_for(
                holdings, header.caller, header.step + 1, header.timeout_ms, wants_dense=header.want_dense
            )
        rows = self._rows_after(holdings, header, update, pulls)
        reply = ps_pb2.PushReply.Header(
            version=version,
            was_repeated=not taken.is_new,
            staleness=taken.staleness,
            skipped=taken.skipped,
            rows=holdings.limited_rows(),
        )
        return reply, rows

    def _take(self, holdings: Holdings, header: ps_pb2.PushRequest.Header, update: PushedUpdate) -> Taken:
        """Collect or apply a push, unless it was taken before, and count it."""
        skipped = staleness = 0
        with self._ledger.once(header.caller.worker, header.caller.incarnation, header.sequence) as is_new:
            if is_new and holdings.job.mode == "sync":
                skipped = self._collect(holdings, update)
            elif is_new:
                skipped = holdings.apply(update)
                staleness = self._advance(update, header.pulled_version)
        if is_new:
            self._stats.pushed(update, staleness, skipped)
        else:
            self._stats.count(repeated_pushes=1)
        return Taken(is_new, staleness, skipped)

    def _advance(self, update: PushedUpdate, pulled_version: int) -> int:
        """Count a push that was applied by itself; how many others came since its worker pulled."""
        staleness = 0
        with self._changed:
            if update.tables or update.dense:
                staleness = max(0, self._rounds.version - pulled_version)
            self._rounds.version += 1
            self._changed.notify_all()
        return staleness

    def _rows_after(
        self,
        holdings: Holdings,
        header: ps_pb2.PushRequest.Header,
        update: PushedUpdate,
        pulls: Sequence[TablePull],
    ) -> list[Any]:
        """What a push wants back: the rows that it changed, those of `pulls`, the dense parameters."""
        rows: list[Any] = []
        if header.want_rows:
            rows += [holdings.pull(part.table, part.keys) for part in update.tables]
        if pulls:
            rows += self._pulled(holdings, pulls)
        if header.want_dense:
            rows += holdings.read_dense()
        return rows

    def _pulled(self, holdings: Holdings, pulls: Sequence[TablePull]) -> list[Any]:
        presence.reserve(sum(4 * len(part.keys) * holdings.job.tables[part.table].width for part in pulls))
        self._stats.count(pulls=1, pulled_rows=sum(len(part.keys) for part in pulls))
        return [holdings.pull(*part) for part in pulls]

    def _collect(self, holdings: Holdings, update: PushedUpdate) -> int:
        """Keep a push until its step is complete, and apply the step if this was the last."""
        with self._changed:
            self._refuse_failed()
            self._rounds.add(update)
            self._meetings.notice()
        return self._apply_if_complete(holdings)

    def _apply_if_complete(self, holdings: Holdings) -> int:
        with self._applying:
            with self._changed:
                updates = self._rounds.complete()
            if updates is None:
                return 0
            try:
                skipped = holdings.apply_mean(updates)
            except Exception as error:
                # Some of it may have been applied: the step can neither be taken back nor done again.
                with self._changed:
                    self._failure = f"step {self._rounds.version} failed on this server: {error}; load a checkpoint"
                    self._rounds.drop()
                    self._changed.notify_all()
                raise
            with self._changed:
                self._rounds.advance()
                self._changed.notify_all()
            return skipped

    def _leave(self, header: ps_pb2.LeaveRequest.Header, _: Tensors) -> Answered:
        holdings = self._known(header.caller)
        with self._changed:
            self._rounds.leave(header.caller.worker, is_unfinished=header.is_unfinished)
            self._changed.notify_all()  # whoever waits for one that is unfinished waits in vain
            is_last = self._rounds.is_deserted
        if holdings.job.mode == "sync":
            self._stats.count(skipped=self._apply_if_complete(holdings))
        if is_last:
            self.finished.set()
        return ps_pb2.LeaveReply.Header(), ()

    # State.

    def _save(self, header: ps_pb2.SaveRequest.Header, _: Tensors) -> Answered:
        return self._saves.save(self._known(header.caller), header, lambda: self._rounds.version), ()

    def _load(self, header: ps_pb2.LoadRequest.Header, _: Tensors) -> Answered:
        holdings = self._known(header.caller)
        with self._applying:
            loaded = storage.load(holdings, Path(header.folder))
            with self._changed:
                self._failure = None
                self._rounds.version = loaded.version
                self._changed.notify_all()
        return ps_pb2.LoadReply.Header(rows=loaded.rows, version=loaded.version), ()

    def _meet(self, header: ps_pb2.MeetRequest.Header, _: Tensors) -> Answered:
        job, caller = self._known(header.caller).job, header.caller.worker

        def elsewhere(missing: Sequence[int]) -> list[int]:
            self._known(header.caller)  # also while it waits
            pushed = self._rounds.pushed() if job.mode == "sync" and header.is_between_steps else set()
            ahead = pushed if caller not in pushed else set()
            return [one for one in missing if self._rounds.is_away(one) or one in ahead]

        return self._meetings.answer(header, job.num_workers, elsewhere), ()

    def _shrink(self, header: ps_pb2.ShrinkRequest.Header, _: Tensors) -> Answered:
        deleted, rows = self._known(header.caller).shrink(header, self._stats.last_step)
        return ps_pb2.ShrinkReply.Header(deleted=deleted, rows=rows), ()

    def _report(self, header: ps_pb2.StatsRequest.Header, _: Tensors) -> Answered:
        holdings = self._known(header.caller)
        with self._changed:
            awaited = awaited_by_all(holdings, self._rounds)
        stats = self._stats.to_json(holdings, self._rounds.version)
        return ps_pb2.StatsReply.Header(stats=stats, awaited=awaited.what, missing=awaited.workers), ()
