"""Two servers with journals in this process, and workers of theirs whose lives come and go."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import CommunicationError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.server.service import Service
from fleet.ps.wire.status import unreachable
from fleet.ps.wire.transport import Answer, LocalTransport
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.life.progress import ScriptProgress
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.runtime.saved import saving

ADS = TableSpec(
    "ads", 2, rules.SGD(), initializers.Constant(0.0), entries.ShowClickEntry("show", "click", threshold=0.0)
)


class Remote(LocalTransport):
    """A server on a network, which may be away: a call is under way when `call` returns."""

    def __init__(self, servers: Servers, number: int) -> None:
        super().__init__(servers.services[number], f"server {number}")
        self._servers, self._number = servers, number

    def call(self, method: str, header: Any, tensors: Any, timeout_s: float) -> Answer:  # noqa: ARG002
        servers, number = self._servers, self._number
        if servers.is_away(number, method):
            answer: Answer = Future()
            answer.set_exception(unreachable(f"server {number}", method, "killed"))
            return answer
        return servers.pool.submit(servers.services[number].handle, method, header, tensors)


class Servers:
    """Two servers with journals, and workers whose lives come and go."""

    def __init__(self, folder: Path, job: JobSpec) -> None:
        self.folder, self.job = folder, job
        self.pool = ThreadPoolExecutor(32)
        self.is_away: Callable[[int, str], bool] = lambda _, __: False
        self.services = self._begun()

    def _begun(self) -> list[Service]:
        return [Service(journal=(self.folder / f"server-{number}", "OS")) for number in (0, 1)]

    def restart(self) -> None:
        for one in self.services:
            one.close()
        self.services = self._begun()

    def life(self, worker: int = 0) -> Any:
        """A worker's life, from its declaration on."""
        progress = ScriptProgress(self.folder / f"worker-{worker}")
        client = Client([Remote(self, 0), Remote(self, 1)], worker, self.job, answers=progress.answers)
        client.declare()
        return SimpleNamespace(client=client, progress=progress, policy=None)

    @property
    def versions(self) -> list[int]:
        return [one.state.rounds.version for one in self.services]

    def shows(self) -> set[float]:
        found = [one.state.held.tables[0].export(0, 64)["shows"] for one in self.services]
        return set(np.concatenate(found).tolist())

    def rows(self, keys: range) -> list[float]:
        found = [one.state.held.tables[0].export(0, 64) for one in self.services]
        known = {int(key): row for one in found for key, row in zip(one["keys"], one["values"], strict=True)}
        return [float(known[key].view(np.float32)[0]) for key in keys]

    def close(self) -> None:
        for one in self.services:
            one.close()
        self.pool.shutdown()


def push_rows(
    client: Client, step: int, keys: range, *, width: int = 2, shows: bool = False, sync: bool = False
) -> Any:
    found = route(torch.tensor(keys), 2)
    n = len(found.grouped)
    counted = (torch.full((n,), 8.0), torch.zeros(n)) if shows else (None, None)
    part = TablePush(0, 1.0, found.grouped, torch.full((n, width), -1.0), found.offsets.tolist(), None, *counted)
    return client.push(Gradients(step, [part], steps=step + 1), is_awaited=sync)


def shrink_on_one(servers: Servers, worker: Any) -> None:
    """Have server 0 alone shrink its table: server 1 is away, and comes back when the worker has heard of that."""
    servers.is_away = lambda number, method: number == 1 and method == "Shrink"
    with pytest.raises(CommunicationError, match="killed"):
        saving.shrink(worker, None, decay=0.5)
    servers.is_away = lambda _, __: False
