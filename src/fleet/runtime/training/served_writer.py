"""The thread of a worker that writes its part of a checkpoint beside servers; worker 0's also waits for the servers.

All of them meet twice: with what each has written, and to learn whether worker 0 has committed it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.checkpoint import Account, Piece, StepFolders, TrainingManifest, abort, pieces_from_text, write_spans
from fleet.errors import CheckpointError, DeadlineError, FleetError
from fleet.ps.gathering import Gathering
from fleet.ps.proto import ps_pb2
from fleet.ps.worker import Worker
from fleet.runtime.saving import SAVE_TIMEOUT_S
from fleet.runtime.training.rejoined import WAS_STARTED_AGAIN
from fleet.runtime.training.writer import Captured, Keep, text_of

log = logging.getLogger(__name__)

# How long a server is asked to wait for its end before it says how far it is.
_ASK_S = 1.0


class ServerWrites:
    """What the servers write into a folder: begun when this is made, which returns when all have copied."""

    def __init__(self, worker: Worker, writing: Path, *, background: bool) -> None:
        self._worker = worker
        self._writing = writing
        self._replies = self._ask(background, 0.0)
        self._check_versions()

    def _ask(self, background: bool, wait_s: float) -> list[ps_pb2.SaveReply.Header]:
        client = self._worker.client
        replies = client.ask(
            "Save",
            lambda server: ps_pb2.SaveRequest.Header(
                caller=client.caller(server),
                folder=str(self._writing.absolute()),
                in_background=background,
                timeout_ms=int(wait_s * 1000),
            ),
            timeout_s=SAVE_TIMEOUT_S,
        )
        return [reply for reply, _ in replies]

    def _check_versions(self) -> None:
        versions = {reply.version for reply in self._replies}
        if len(versions) > 1 and self._worker.client.job.mode == "sync":
            raise CheckpointError(f"the servers were at different steps when they were saved: {sorted(versions)}")

    def wait(self, timeout_s: float, moved: Callable[[], None]) -> tuple[int, tuple[Piece, ...]]:
        """The version and the pieces, when all are written; `moved` is called when there are more files than before.

        DeadlineError when for `timeout_s` no server has written one.
        """
        since = time.monotonic()
        while not all(reply.is_written for reply in self._replies):
            known = [reply.num_files for reply in self._replies]
            self._replies = self._ask(True, _ASK_S)
            if [reply.num_files for reply in self._replies] != known:
                since = time.monotonic()
                moved()
            elif time.monotonic() - since > timeout_s:
                slow = [str(server) for server, reply in enumerate(self._replies) if not reply.is_written]
                raise DeadlineError(f"waited {timeout_s:g} s for server {', '.join(slow)} to write")
        found: list[Piece] = []
        for transport, reply in zip(self._worker.client.transports, self._replies, strict=True):
            found += pieces_from_text(reply.pieces, f"server {transport.endpoint}")
        return max(reply.version for reply in self._replies), tuple(found)


@dataclass(frozen=True)
class Target:
    """Where a checkpoint goes, and who writes it."""

    worker: Worker
    workers: Gathering
    steps: StepFolders
    keep: Keep
    timeout_s: float


class ServedWriter(threading.Thread):
    """Writes one step, then is over; `finish` tells how it ended."""

    def __init__(
        self,
        target: Target,
        number: int,
        step: int,
        metric: float | None,
        writing: Path,
        captured: Captured | str,
        writes: ServerWrites | None,
    ) -> None:
        """`writes` is worker 0's. A text instead of what was captured: why there is nothing to write."""
        super().__init__(name="fleet-checkpoint", daemon=True)
        self._target = target
        self._topic = f"save/{number}"
        self._step = step
        self._metric = metric
        self._writing = writing
        self._captured: Captured | str = captured
        self._writes = writes
        self._failure: CheckpointError | None = None
        self._started_at = time.monotonic()

    def finish(self) -> None:
        """Wait for the end; CheckpointError on every worker if the checkpoint could not be written."""
        self.join()
        if self._failure is None:
            return
        if self._target.worker.progress is not None and WAS_STARTED_AGAIN in str(self._failure):
            return  # logged: the job goes on, and so does what the servers have
        raise self._failure

    def run(self) -> None:
        try:
            self._lead() if self._target.workers.rank == 0 else self._follow()
        except Exception as error:  # of whatever kind: it is raised where the save is waited for
            self._failure = CheckpointError(f"checkpoint step {self._step} was not written: {text_of(error)}")
            self._failure.__cause__ = error
            log.error("%s", self._failure)
        finally:
            self._captured = ""

    def _lead(self) -> None:
        workers, failure = self._target.workers, ""
        try:
            self._commit()
        except Exception as error:
            failure = text_of(error)
            with suppress(CheckpointError):
                abort(self._writing)
            raise
        finally:
            with suppress(FleetError):  # without the server nobody can be told, and all notice it themselves
                workers.tell(f"{self._topic}/outcome", failure)
        self._target.keep.prune(self._target.steps)

    def _follow(self) -> None:
        workers = self._target.workers
        workers.meet(f"{self._topic}/written", self._say(), f"the writing of save({self._step})")
        outcome = workers.meet(f"{self._topic}/outcome", "", f"the end of save({self._step})", others=[0])[0]
        if outcome:
            raise CheckpointError(outcome)

    def _commit(self) -> None:
        target = self._target
        workers, topic = target.workers, f"{self._topic}/written"
        version: int = 0
        pieces: tuple[Piece, ...] = ()
        said = self._say()
        if "error" not in json.loads(said):
            assert self._writes is not None
            try:
                version, pieces = self._writes.wait(target.timeout_s, lambda: workers.give_sign(topic))
            except Exception as error:
                said = json.dumps({"error": text_of(error)})
        texts = workers.meet(topic, said, f"the writing of save({self._step})")
        accounts = []
        for worker, text in enumerate(texts):
            account = json.loads(text)
            if "error" in account:
                raise CheckpointError(f"worker {worker}: {account['error']}" if worker else account["error"])
            accounts.append(Account.from_text(account["account"], f"worker {worker}"))
        manifest = TrainingManifest.of(accounts, self._metric)
        client = target.worker.client
        whole = manifest.within(version, client.num_servers, pieces, json.loads(client.job.to_json()))
        target.steps.commit(self._writing, self._step, whole)
        size = sum(file.size_bytes for file in whole.files)
        log.info("checkpoint step %d: %.3g MB in %.1f s", self._step, size / 1e6, time.monotonic() - self._started_at)

    def _say(self) -> str:
        """What this worker has written, or why not, as JSON."""
        captured = self._captured
        if isinstance(captured, str):
            return json.dumps({"error": captured})
        workers = self._target.workers
        try:
            pieces = write_spans(self._writing, workers.rank, workers.size, captured.parts)
        except Exception as error:  # of whatever kind: the others wait for an answer
            return json.dumps({"error": text_of(error)})
        return json.dumps({"account": replace(captured.account, pieces=pieces).to_text()})
