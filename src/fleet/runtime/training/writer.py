"""The thread that writes a checkpoint while training goes on, in agreement with the threads of the other workers.

Every worker writes its own files; worker 0 makes the folder before and the manifest after, when all have written. What
fails on one worker ends the save on all of them, and what was written is deleted.
"""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fleet.checkpoint import Account, Best, SpanData, StepFolders, TrainingManifest, abort, write_spans
from fleet.errors import CheckpointError, CommunicationError, FleetError
from fleet.observe.metrics import events
from fleet.runtime.training.save_store import POLL_S, SaveStore

log = logging.getLogger(__name__)

# A folder that another machine has made may take a moment to be seen here.
APPEARS_S = 5.0
SEEN_S = 10.0
# How much longer workers wait for the outcome than worker 0 takes to tell it.
LATER_S = 30.0


@dataclass(frozen=True)
class Captured:
    """What this worker writes of one step."""

    account: Account
    """Without pieces: they are not written yet."""
    parts: Sequence[SpanData]


@dataclass(frozen=True)
class Keep:
    """Which checkpoints stay: the newest whole ones with their increments, and the best if there is a metric."""

    newest: int
    best: Best | None = None
    full_every: int = 1
    """How many saves come to a whole one; the others are increments."""

    def prune(self, steps: StepFolders) -> None:
        """Delete the others; the new one is there whatever comes of it."""
        try:
            steps.prune(self.newest, self.best)
        except Exception as error:
            log.warning("old checkpoints stay in %s: %s", steps.folder, text_of(error))


@dataclass(frozen=True)
class Destination:
    """Where a checkpoint goes, and who writes it."""

    steps: StepFolders
    keep: Keep
    worker: int
    num_workers: int
    store: SaveStore | None
    """None where there is nobody to agree with."""
    timeout_s: float
    """How long nobody may have written a file before the save is given up."""


class CheckpointWriter(threading.Thread):
    """Writes one step, then ends; `finish` tells how."""

    def __init__(
        self, to: Destination, number: int, step: int, captured: Captured | str, metric: float | None = None
    ) -> None:
        """`number` counts the saves of this run. A text instead of what was captured: why there is nothing."""
        super().__init__(name="fleet-checkpoint", daemon=True)
        self.step = step
        self._to = to
        self._number = number
        self._captured: Captured | str = captured
        self._metric = metric
        self._failure: CheckpointError | None = None
        self._started_at = self._moved_at = time.monotonic()
        self._doing = "its start"

    def finish(self) -> None:
        """Wait for the end; CheckpointError on every worker if the checkpoint could not be written."""
        limit_s = self._to.timeout_s + 2 * LATER_S
        while self.is_alive():
            self.join(timeout=1.0)
            if self.is_alive() and time.monotonic() - self._moved_at > limit_s:
                raise CheckpointError(f"checkpoint step {self.step}: waited {limit_s:.0f} s for {self._doing}")
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        try:
            if (store := self._to.store) is None:
                self._save_alone()
            else:
                with store.watching_host():
                    self._lead(store) if self._to.worker == 0 else self._follow(store)
        except Exception as error:  # of whatever kind: it is raised where the save is waited for
            self._failure = CheckpointError(f"checkpoint step {self.step} was not written: {text_of(error)}")
            self._failure.__cause__ = error
            log.error("%s", self._failure)
        finally:
            self._captured = ""

    def _save_alone(self) -> None:
        writing = self._to.steps.begin(self.step)
        try:
            self._commit(writing, [self._write(writing)])
        except BaseException:
            abort(writing)
            raise
        self._to.keep.prune(self._to.steps)

    def _lead(self, store: SaveStore) -> None:
        try:
            writing = self._to.steps.begin(self.step)
        except Exception as error:
            self._tell(store, "folder", json.dumps({"error": text_of(error)}))
            raise
        try:
            store.put(f"{self._number}/folder", json.dumps({"path": str(writing)}))
            self._commit(writing, [self._write_first(writing), *self._collect(store)])
        except BaseException as error:
            with contextlib.suppress(CheckpointError):
                abort(writing)
            self._tell(store, "outcome", text_of(error))
            raise
        self._tell(store, "outcome", "")
        self._to.keep.prune(self._to.steps)

    def _follow(self, store: SaveStore) -> None:
        number, worker, limit_s = self._number, self._to.worker, self._to.timeout_s
        self._wait(store, f"{number}/folder", limit_s, "worker 0 to make the folder")
        said = json.loads(store.get(f"{number}/folder") or "{}")
        if "error" in said:
            store.count(f"{number}/seen", 1)
            raise CheckpointError(said["error"])
        answer: dict[str, object] = {"save": number}
        try:
            writing = Path(said["path"])
            self._wait_to_see(writing)
            answer["pieces"] = store.put_long(f"account/{worker}", self._write(writing).to_text())
        except Exception as error:  # of whatever kind: worker 0 waits for an answer
            answer["error"] = f"worker {worker}: {text_of(error)}"
        store.put(f"account/{worker}", json.dumps(answer))
        store.count(f"{number}/done", 1)
        self._wait(store, f"{number}/outcome", limit_s + LATER_S, "worker 0 to say that all have written")
        outcome = store.get(f"{number}/outcome")
        store.count(f"{number}/seen", 1)
        if outcome:
            raise CheckpointError(outcome)

    def _write_first(self, writing: Path) -> Account:
        try:
            return self._write(writing)
        except Exception as error:
            raise CheckpointError(f"worker 0: {text_of(error)}") from error

    def _write(self, writing: Path) -> Account:
        captured = self._captured
        if isinstance(captured, str):
            raise CheckpointError(captured)
        self._move("this worker's files to be written")
        to = self._to
        pieces = write_spans(
            writing, to.worker, to.num_workers, captured.parts, moved=lambda: self._move(None, to.store)
        )
        return replace(captured.account, pieces=pieces)

    def _commit(self, writing: Path, accounts: Sequence[Account]) -> None:
        self._move("the manifest to be written")
        manifest = TrainingManifest.of(accounts, self._metric)
        self._to.steps.commit(writing, self.step, manifest)
        took_s = time.monotonic() - self._started_at
        events.note("checkpoint", f"step {self.step}, {manifest.size_bytes / 1e6:.3g} MB in {took_s:.1f} s")
        log.info("checkpoint step %d: %.3g MB in %.1f s", self.step, manifest.size_bytes / 1e6, took_s)

    def _collect(self, store: SaveStore) -> list[Account]:
        """What the other workers have written, in their order."""
        number, others = self._number, range(1, self._to.num_workers)
        keys = {f"account/{worker}": worker for worker in others}

        def answers() -> dict[int, dict[str, Any]]:
            texts = {keys[key]: json.loads(text) for key, text in store.get_all(keys).items()}
            return {worker: answer for worker, answer in texts.items() if answer["save"] == number}

        def missing() -> str:
            absent = [f"worker {worker}" for worker in others if worker not in answers()]
            return f"{', '.join(absent) or 'the other workers'} to write; is it still there, and does it save too?"

        def all_done() -> bool:
            self._move("the other workers to write")
            return store.count(f"{number}/done", 0) >= len(others)

        store.wait_for(all_done, number, self._to.timeout_s, missing)
        given = answers()
        for worker in others:
            if "error" in given[worker]:
                raise CheckpointError(given[worker]["error"])
        texts = {worker: store.get_long(f"account/{worker}", given[worker]["pieces"]) for worker in others}
        return [Account.from_text(text, f"worker {worker}") for worker, text in texts.items()]

    def _tell(self, store: SaveStore, key: str, text: str) -> None:
        """Tell the others, and stay until they know: the store may go with this worker."""
        self._move("the other workers to see the outcome")
        with contextlib.suppress(CommunicationError):
            store.put(f"{self._number}/{key}", text)
            deadline = time.monotonic() + min(SEEN_S, self._to.timeout_s)
            others = self._to.num_workers - 1
            while store.count(f"{self._number}/seen", 0) < others and time.monotonic() < deadline:
                time.sleep(POLL_S)

    def _wait(self, store: SaveStore, key: str, limit_s: float, what: str) -> None:
        def is_there() -> bool:
            self._move(what)
            return store.get(key) is not None

        store.wait_for(is_there, self._number, limit_s, lambda: what)

    def _wait_to_see(self, writing: Path) -> None:
        deadline = time.monotonic() + APPEARS_S
        while not writing.is_dir():
            if time.monotonic() > deadline:
                raise CheckpointError(
                    f"{writing.parent} is not the folder that worker 0 sees; "
                    "give a folder on a file system that all machines share"
                )
            time.sleep(POLL_S)

    def _move(self, doing: str | None, store: SaveStore | None = None) -> None:
        """Note that this thread is alive and what it waits for; `store` is given when it has written a file."""
        self._doing = doing or self._doing
        self._moved_at = time.monotonic()
        if store is not None:
            store.count(f"{self._number}/moved", 1)


def text_of(error: BaseException) -> str:
    """The text of an error: one of our own is a line, of any other the class is named too."""
    return str(error) if isinstance(error, FleetError) else repr(error)
