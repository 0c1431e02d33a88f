"""The thread of a worker that writes its part of a checkpoint beside servers; worker 0's also waits for the servers.

All of them meet twice: with what each has written, and to learn whether worker 0 has committed it.
"""

import json
import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.checkpoint import Account, Manifest, StepFolders, TrainingManifest, abort, pieces_from_text, write_spans
from fleet.errors import CheckpointError, FleetError
from fleet.observe.metrics import events
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.worker.worker import Worker
from fleet.runtime.saved.server_writes import WAS_STARTED_AGAIN, ServerWrites, Written
from fleet.runtime.training.writer import Captured, Keep, text_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """Where a checkpoint goes, and who writes it."""

    worker: Worker
    workers: WorkerMeetings
    steps: StepFolders
    keep: Keep
    timeout_s: float


class ServedWriter(threading.Thread):
    """Writes one step, then ends; `finish` tells how."""

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
        written: Written | None = None
        said = self._say()
        if "error" not in json.loads(said):
            assert self._writes is not None
            try:
                written = self._writes.wait(target.timeout_s, lambda: workers.give_sign(topic))
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
        assert written is not None  # otherwise worker 0 has said why not
        job, pieces = target.worker.client.server_set.job, written.read(pieces_from_text)
        increment = None if self._writes is None else self._writes.increment
        of_servers = Manifest(
            written.version,
            job.num_servers,
            pieces,
            json.loads(job.to_json()),
            steps=written.steps,
            versions=written.versions,
            parent=None if increment is None else increment.parent(pieces, target.steps.path(self._step)),
        )
        whole = manifest.within(of_servers)
        target.steps.commit(self._writing, self._step, whole)
        size = sum(file.size_bytes for file in whole.files)
        events.note("checkpoint", f"step {self._step}, {size / 1e6:.3g} MB")
        log.info("checkpoint step %d: %.3g MB in %.1f s", self._step, size / 1e6, time.monotonic() - self._started_at)

    def _say(self) -> str:
        """Write this worker's part; returns what was written, or why not, as JSON."""
        captured = self._captured
        if isinstance(captured, str):
            return json.dumps({"error": captured})
        workers = self._target.workers
        if self._target.worker.progress is not None:
            if workers.is_told(f"{self._topic}/written", [workers.rank]):  # a former life has, and what it said counts
                return "{}"
            for left in self._writing.glob(f"*.worker-{workers.rank:03}-of-*"):  # it died while it wrote them
                left.unlink()
        try:
            pieces = write_spans(self._writing, workers.rank, workers.size, captured.parts)
        except Exception as error:  # of whatever kind: the others wait for an answer
            return json.dumps({"error": text_of(error)})
        return json.dumps({"account": replace(captured.account, step=self._step, pieces=pieces).to_text()})
