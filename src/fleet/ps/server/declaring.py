"""How a worker begins with a server: the first that declares the job makes its tables, every other must agree."""

import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet.ps.durable import storage
from fleet.ps.held.holdings import Holdings, make_holdings
from fleet.ps.job.difference import difference
from fleet.ps.job.spec import JobSpec
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.core import EVERYBODY, Core

Opening = Callable[[JobSpec, int], "Sequence[NDArray[np.float32]] | None"]
"""Asked when the first worker declares a job, with the server's index: the first values of the dense groups, if any."""


class Declaring:
    """Answers `Declare`. `finished` is cleared when a worker begins a life."""

    def __init__(
        self,
        core: Core,
        finished: threading.Event,
        model_dir: Path | None = None,
        opening: Opening | None = None,
    ) -> None:
        """`model_dir`: the checkpoint that the job begins with."""
        self._core = core
        self._finished = finished
        self._model_dir = model_dir
        self._opening = opening
        self._agreed: tuple[Holdings, str] | None = None
        """The last declaration that agreed with the job, as it came, and the holdings that it agreed with."""

    def answer(self, asked: ps_pb2.DeclareRequest.Header) -> ps_pb2.DeclareReply.Header:
        """Answer one call: make what it declares, if nobody has yet, and let the worker in if it agrees."""
        header = ps_pb2.DeclareRequest.Header()
        header.CopyFrom(asked)  # what the server gives is filled in
        caller, state = header.caller, self._core.state
        holdings = state.holdings
        # Thousands of workers say the same: only the first is read.
        is_known = holdings is not None and self._agreed == (holdings, header.job)
        job = holdings.job if holdings is not None and is_known else JobSpec.from_json(header.job)
        if caller.worker >= job.num_workers:
            raise UsageError(f"worker {caller.worker} does not exist in a job of {job.num_workers} workers")
        if header.server_index >= job.num_servers:
            raise UsageError(f"server {header.server_index} does not exist in a job of {job.num_servers} servers")
        if self._core.is_closed:
            raise CommunicationError("the server is stopping")
        self._core.refuse_moved()
        if state.holdings is None:
            self._begin(job, header)
        holdings = state.held
        self._check_declared(holdings, job, header)
        self._agreed = holdings, header.job
        with self._core.alone(), self._core.changed:
            if state.holdings is not holdings:  # another worker was told why
                raise NotReadyError("the server could not keep the checkpoint that it was to begin with; see its log")
            if header.life and not caller.incarnation:  # a question: if it comes late it has changed nothing
                caller.incarnation = state.ledger.incarnation_of(caller.worker, header.life)
            elif state.ledger.is_new(caller.worker, caller.incarnation):
                self._core.change(Kind.DECLARE, [RecordPart(header.SerializeToString())], (header, None))
                if not header.has_left:
                    self._finished.clear()
                self._core.tell(caller.worker)  # its former life may wait for a step
            elif header.life and not state.ledger.is_life(caller.worker, header.life):
                caller.incarnation = 0  # a life before this one has asked as well, and its word came late
            steps, position = state.ledger.history(caller.worker)
            num_workers = state.rounds.num_present if holdings.job.is_elastic else 0
            version, num_ended, passed = state.rounds.version, state.rounds.num_ended, list(state.rounds.passed)
        return ps_pb2.DeclareReply.Header(
            instance=state.instance,
            is_started=holdings.is_started,
            version=version,
            model_dir="" if self._model_dir is None else str(self._model_dir),
            incarnation=caller.incarnation,
            run=state.run,
            steps=steps,
            position=position,
            num_ended=num_ended,
            passed=passed,
            data_port=self._core.data_port,
            num_workers=num_workers,
        )

    def _check_declared(self, holdings: Holdings, job: JobSpec, header: ps_pb2.DeclareRequest.Header) -> None:
        """UsageError if a worker means another job, or another server."""
        worker = header.caller.worker
        if job is not holdings.job and (what := difference(job, holdings.job)) is not None:
            durability = self._core.durability
            folder = None if durability is None else durability.resumed_from
            kept = f"; {folder} holds that job: run its command again, or choose another --durable" if folder else ""
            raise UsageError(f"worker {worker} does not agree with the job: {what}{kept}")
        if header.server_index != holdings.server:
            raise UsageError(
                f"worker {worker} takes this server for server {header.server_index}, others for "
                f"server {holdings.server}; give every worker the same list of servers"
            )
        if header.run and self._core.state.run and header.run != self._core.state.run:
            raise UsageError(
                f"server {holdings.server} has the state of another run of the job than server 0: one of them began "
                "anew. Bring back the folder it had (--durable), or begin anew with all of them, from a checkpoint"
            )

    def _begin(self, job: JobSpec, header: ps_pb2.DeclareRequest.Header) -> None:
        """Make what the first worker declares."""
        if self._model_dir is not None:  # a snapshot has both what is declared and what is loaded, or nothing is there
            with self._core.undisturbed():
                if self._core.state.holdings is None:  # or another worker has come first
                    self._core.replace(lambda: self._make(job, header), self._unmake)
            return
        with self._core.alone():
            self._make(job, header)

    def _unmake(self) -> None:
        """Forget what was made: the journal has nothing of it. Under the closed gate."""
        with self._core.changed:
            self._core.state.holdings = None
            self._core.tell(EVERYBODY)

    def _make(self, job: JobSpec, header: ps_pb2.DeclareRequest.Header) -> None:
        """Make tables and dense parameters, unless another worker has come first; under the closed gate."""
        with self._core.changed:
            if self._core.state.holdings is not None:
                return
            holdings = make_holdings(job, header.server_index, self._core.state.device)
            values = None if self._opening is None else self._opening(job, header.server_index)
            run = header.run or secrets.randbits(63) + 1
            if self._model_dir is not None:
                loaded = storage.load(holdings, self._model_dir)
                self._core.state.begin(holdings, run)
                self._core.state.loaded(loaded.version)
                return
            first = ps_pb2.DeclareRequest.Header(job=header.job, server_index=header.server_index, run=run)
            self._core.change(Kind.DECLARE, [RecordPart(first.SerializeToString())], (first, holdings))
            if values is not None:
                self._core.change(Kind.START, [RecordPart(b"", values)], (values, ()))
