"""A follower of a stream of changes that keeps everything in dicts, and what it must equal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fleet.checkpoint import read_inference
from fleet.ps.publishing.publishing import Publisher
from fleet.ps.server.service import Service
from fleet.stream import ChangeBatch, StartOverError
from fleet_serve.following.stream import follow

LIMIT_S = 60.0
Rows = dict[int, bytes]


def publisher_of(service: Service) -> Publisher:
    """What publishes now."""
    found = service.publishing.running
    assert found is not None
    return found


class Follower:
    """Has a base, applies what follows, and takes another base where it is told to."""

    def __init__(self, url: str | Path) -> None:
        self.stream = follow(str(url), timeout_s=LIMIT_S)
        self.num_bases = self.num_batches = 0
        self.taken: list[tuple[int, int]] = []
        self.latest: ChangeBatch | None = None
        self._load()

    def _load(self) -> None:
        base = self.stream.base
        found = read_inference(base.folder)
        self.numbers = list(base.numbers)
        self.tables: dict[str, Rows] = {
            name: {int(key): row.tobytes() for key, row in zip(*both, strict=True)}
            for name, both in found.tables.items()
        }
        self.dense = {name: np.array(values) for name, values in found.dense.items()}
        self.num_bases += 1

    def step(self, for_s: float = 0.05) -> None:
        """Apply what is there."""
        try:
            for batch in self.stream.batches(self.numbers, time.monotonic() + for_s):
                self._apply(batch)
        except StartOverError:
            self.stream.next_base(self.numbers, LIMIT_S)
            self._load()

    def _apply(self, batch: ChangeBatch) -> None:
        for name, changes in batch.tables.items():
            rows = self.tables[name]
            rows |= {int(key): row.tobytes() for key, row in zip(changes.keys, changes.values, strict=True)}
            for key in changes.gone:
                rows.pop(int(key), None)
        for (name, begin), values in batch.dense.items():
            self.dense[name].reshape(-1)[begin : begin + len(values)] = values
        self.numbers[batch.shard] = batch.number
        self.taken.append((batch.shard, batch.number))
        self.num_batches += 1
        self.latest = batch

    def until(self, is_there: Callable[[], bool], what: str) -> None:
        """Follow until something is so."""
        deadline = time.monotonic() + LIMIT_S
        while not is_there():
            assert time.monotonic() < deadline, f"waited {LIMIT_S:g} s for {what}, at {self.numbers}"
            self.step()

    def equals(self, services: Sequence[Service]) -> bool:
        """Whether it has what the servers have, to the bit."""
        return self.tables == tables_of(services) and all(
            np.array_equal(self.dense[name], values) for name, values in dense_of(services).items()
        )


def tables_of(services: Sequence[Service]) -> dict[str, Rows]:
    """The rows of all servers, as float32."""
    found: dict[str, Rows] = {}
    for service in services:
        for spec, table in zip(service.state.held.job.tables, service.state.held.tables, strict=True):
            keys = table.export(0, table.num_shards)["keys"]
            rows = np.asarray(table.pull(keys), np.float32)
            found.setdefault(spec.name, {}).update(
                {int(key): row.tobytes() for key, row in zip(keys, rows, strict=True)}
            )
    return found


def dense_of(services: Sequence[Service]) -> dict[str, np.ndarray]:
    """The dense parameters of all servers."""
    from fleet.ps.publishing.changes import dense_blocks

    found = {name: np.zeros(shape, np.float32) for name, shape in services[0].state.held.job.dense.shapes}
    for service in services:
        for (name, begin), values in dense_blocks(service.state.held).items():
            found[name].reshape(-1)[begin : begin + len(values)] = values
    return found
