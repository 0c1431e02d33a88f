"""The real thing, moved by hand: services with journals, and clients whose calls wait until somebody delivers them.

A worker is a thread that runs `fleet`'s client with its outbox. Each of its calls waits here; the service gets it, once
or more often, when `Held.deliver` is called, and the worker gets the answer by `Held.answer`. A worker dies by an
exception in the call that it waits for. A server dies by going on from a copy of its files, as they are at that moment.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch

from fleet.errors import FleetError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import Transport
from fleet.ps.worker.asking.keys import route, server_of
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.life.answer_file import AnswerFile
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from modelled.state import LEAVE, PUSH, SHRINK, Size

SHOWS, DECAY, LIMIT_S = 1024.0, 0.5, 20.0
BEGIN = "begin"
"""In place of a method: no call, but a worker that waits before its next change."""


class Killed(BaseException):
    """What a worker's thread ends with that is killed."""


class Held(Future[Any]):
    """A call of a worker to one server, which waits here."""

    def __init__(self, worker: RealWorker, server: int, method: str, header: Any, tensors: Any) -> None:
        super().__init__()
        self.worker, self.server, self.method, self.header, self.tensors = worker, server, method, header, tensors
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Any:
        with self.worker.changed:
            self.worker.waits_for = None if self.done() else self
            self.worker.changed.notify_all()
        return super().result(None if timeout is None else LIMIT_S)


class _HeldTransport(Transport):
    def __init__(self, worker: RealWorker, server: int) -> None:
        self.endpoint = f"server {server}"
        self._worker, self._server = worker, server

    def call(self, method: str, header: Any, tensors: Any, timeout_s: float) -> Any:  # noqa: ARG002
        message = type(header)()
        message.CopyFrom(header)
        held = Held(self._worker, self._server, method, message, tensors)
        self._worker.calls.append(held)
        return held

    def close(self) -> None:
        pass


class RealServer:
    """A server and the folder of its journal."""

    def __init__(self, folder: Path) -> None:
        self._root, self._life = folder, 0
        self.service = Service(journal=(folder / "0", "OS"))

    def deliver(self, method: str, header: Any, tensors: Any) -> Any:
        """Give it a message, as the wire would; its answer, or the error that it answers with."""
        message = type(header)()
        message.CopyFrom(header)
        if method == "Push":
            message.timeout_ms = 0  # its answer comes when it is asked again
        try:
            return self.service.handle(method, message, tensors)
        except FleetError as error:
            return error

    def restart(self) -> None:
        """Go on from what is in its files now."""
        self._life += 1
        shutil.copytree(self._root / str(self._life - 1), self._root / str(self._life))
        self.service.close()
        self.service = Service(journal=(self._root / str(self._life), "OS"))

    def shows(self) -> dict[int, float]:
        """How often each key was shown: a push adds to that, a shrink makes it less."""
        if self.service.state.holdings is None:
            return {}
        found = self.service.state.held.tables[0].export(0, 64)
        return dict(zip(found["keys"].tolist(), found["shows"].tolist(), strict=True))


def job_of(size: Size) -> JobSpec:
    """One table that counts what it is shown."""
    entry = entries.ShowClickEntry("show", "click", threshold=0.0)
    table = TableSpec("ads", 1, rules.SGD(lr=1.0), initializers.Constant(0.0), entry)
    return JobSpec(len(size.scripts), size.num_servers, "sync" if size.is_sync else "async", tables=(table,))


def keys_of(size: Size, worker: int, place: int) -> list[int]:
    """One key for each server, of no other change."""
    found: dict[int, int] = {}
    key = 1 + 1000 * (10 * worker + place)
    while len(found) < size.num_servers:
        found.setdefault(int(server_of(torch.tensor([key]), size.num_servers)[0]), key)
        key += 1
    return [found[server] for server in range(size.num_servers)]


class RealWorker:
    """One life of a worker."""

    def __init__(self, size: Size, number: int, folder: Path) -> None:
        self.size, self.number = size, number
        self.calls: list[Held] = []
        self.changed = threading.Condition()
        self.waits_for: Held | None = None
        self.is_over = False
        self.at: int | None = None
        self.error: BaseException | None = None
        self._answers = AnswerFile(folder / f"worker-{number}" / "answers")
        transports = [_HeldTransport(self, server) for server in range(size.num_servers)]
        self.client = Client(transports, number, job_of(size), answers=self._answers)
        self._thread = threading.Thread(target=self._run, name=f"modelled-{number}", daemon=True)
        self._thread.start()
        self.settle()

    def settle(self) -> None:
        """Wait until it waits, or has ended."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.waits_for is not None or self.is_over, LIMIT_S), (
                "a worker does not wait"
            )

    def answer(self, call: Held, answer: Any) -> None:
        """Let it have the answer to a call."""
        self.calls.remove(call)
        with self.changed:
            self.waits_for = None if self.waits_for is call else self.waits_for
        if isinstance(answer, BaseException):
            call.set_exception(answer)
        else:
            call.set_result(answer)
        self.settle()

    def kill(self) -> None:
        """End it where it is."""
        for call in self.calls:
            call.set_exception(Killed())
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        self._answers.close()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = None if isinstance(error, Killed) else error
        with self.changed:
            self.is_over = True
            self.changed.notify_all()

    def _work(self) -> None:
        self.client.declare()
        script, steps = self.size.scripts[self.number], self.client.resumed_updates
        num_pushes = 0
        for place, kind in enumerate(script):
            num_pushes += kind == PUSH
            if (kind == PUSH and num_pushes <= steps) or f"shrink/{place}" in self._answers:
                continue
            self._begin(place)
            self._steps()[kind](place, num_pushes)
        self.at = len(script)

    def _begin(self, place: int) -> None:
        """Wait at a place of the script until it shall go on."""
        self.at = place
        held = Held(self, -1, BEGIN, ps_pb2.LeaveRequest.Header(), ())
        self.calls.append(held)
        held.result()

    def _steps(self) -> dict[str, Callable[[int, int], None]]:
        return {PUSH: self._push, LEAVE: lambda _, __: self.client.changes.leave(), SHRINK: self._shrink}

    def _push(self, place: int, steps: int) -> None:
        keys = torch.tensor(keys_of(self.size, self.number, place))
        found = route(keys, self.size.num_servers)
        ones = torch.ones(len(keys))
        rows = TablePush(
            *(0, 1.0, found.grouped, torch.ones(len(keys), 1), found.offsets.tolist(), None), SHOWS * ones, 0 * ones
        )
        self.client.push(Gradients(steps - 1, [rows], steps=steps), is_awaited=self.size.is_sync).results()

    def _shrink(self, place: int, _: int) -> None:
        caller = self.client.caller
        self.client.changes.make(
            "Shrink",
            lambda server: ps_pb2.ShrinkRequest.Header(caller=caller(server), decay=DECAY),
            turn=f"shrink/{place}",
        )


def number_of(call: Held) -> tuple[int, int]:
    """The incarnation and the number of a change."""
    return call.header.caller.incarnation, call.header.sequence


def close_all(servers: Sequence[RealServer], workers: Sequence[RealWorker]) -> None:
    """Leave nothing behind."""
    for worker in workers:
        worker.kill()
    for server in servers:
        server.service.close()
