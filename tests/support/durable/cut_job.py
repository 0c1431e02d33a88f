"""A job whose checkpoints show whether they are of one moment: every row and parameter says how often it was updated.

Each step of a worker gives every row that it uses, in both tables, and every dense parameter the gradient 1. So value
and state of a row are functions of how often it was pushed; both tables have the same rows, pushed as often; a worker's
own rows, one on each server, count its steps; and a dense parameter counts those of all workers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import ge
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import fleet
from fleet import _native, checkpoint
from fleet.net import Endpoint
from fleet.ps.worker.asking import keys
from support.parity.training import Trainer, joined, started, strategy
from support.processes import wait_until

WIDTH = 2
NUM_IDS = 2000
NUM_EACH = 64
LR = 0.125
K_STEPS = 2
SAVE_STEPS = 3
# More than a worker may have in its queue, or in geo mode before it sends something.
NEW_STEPS = 6
TABLES = ("ads", "users")


def own_ids(worker: int, num_servers: int) -> list[int]:
    """Ids that only this worker uses: one on each server."""
    begin = NUM_IDS + 1000 * worker
    return [int(piece[0]) for piece in keys.route(torch.arange(begin, begin + 1000), num_servers).pieces()]


class Net(nn.Module):
    """Two tables, and a dense parameter for each server."""

    def __init__(self, is_geo: bool) -> None:
        super().__init__()
        rule = fleet.rules.SGD(lr=1.0) if is_geo else fleet.rules.Adagrad(lr=LR)
        zeros = fleet.initializers.Constant(0.0)
        self.ads = fleet.nn.Embedding(WIDTH, table="ads", rule=rule, initializer=zeros)
        self.users = fleet.nn.Embedding(WIDTH, table="users", rule=rule, initializer=zeros)
        self.first = nn.Parameter(torch.zeros(3))
        self.second = nn.Parameter(torch.zeros(5))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """A loss whose gradients are all 1."""
        loss: torch.Tensor = self.ads(ids).sum() + self.users(ids).sum() + self.first.sum() + self.second.sum()
        return loss


class CountingJob:
    """Workers in threads, all of them in one asynchronous job: worker 0 is the caller's, the others train on."""

    def __init__(self, endpoints: Sequence[Endpoint], mode: str, num_workers: int) -> None:
        self.mode = mode
        self.num_workers = num_workers
        self.num_servers = len(endpoints)
        self._endpoints = endpoints
        self._is_over = threading.Event()
        self._num_steps = [0] * num_workers

    @contextmanager
    def run(self) -> Iterator[Trainer]:
        """Worker 0, while the others train."""
        with ExitStack() as stack:
            workers = [stack.enter_context(self._joined(index)) for index in range(self.num_workers)]
            running = started(*(lambda one=one: self._train(one) for one in workers[1:]))
            try:
                yield workers[0]
            finally:
                self._is_over.set()
                for each in running:
                    each.result(60)
            for one in workers:
                one.fleet.stop_worker()

    @contextmanager
    def _joined(self, index: int) -> Iterator[Trainer]:
        with joined(
            self._endpoints,
            index,
            self.num_workers,
            strategy=strategy(self.mode, K_STEPS, max_merge_var_num=1),
            model=Net(self.mode == "geo"),
            optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=1.0),
        ) as one:
            yield one

    def save(self, one: Trainer, number: int, folder: Path) -> Path:
        """A save by worker 0, when it and all others have made some more steps."""
        wanted = [done + NEW_STEPS for done in self._num_steps[1:]]
        for step in range(SAVE_STEPS * number, SAVE_STEPS * (number + 1)):
            self._step(one, step)
        wait_until(lambda: all(map(ge, self._num_steps[1:], wanted)), 60, "steps of the others")
        saved = one.fleet.save_persistables(folder)
        assert saved is not None
        return saved

    def _step(self, one: Trainer, number: int) -> None:
        generator = torch.Generator().manual_seed(1000 * one.index + number)
        shared = torch.randperm(NUM_IDS, generator=generator)[:NUM_EACH]
        own = own_ids(one.index, self.num_servers)
        if self.mode == "geo" and number % K_STEPS:  # a row that is touched once between two exchanges is sent whole
            own = []
        ids = torch.cat([shared, torch.tensor(own, dtype=torch.int64)])
        one.optimizer.zero_grad()
        one.model(ids).backward()
        one.optimizer.step()

    def _train(self, one: Trainer) -> None:
        while not self._is_over.is_set():
            self._step(one, self._num_steps[one.index])
            self._num_steps[one.index] += 1

    def check(self, folder: Path) -> list[str]:
        """What a checkpoint holds that is not of one moment; nothing if all is."""
        manifest = checkpoint.read_manifest(folder)
        wrong: list[str] = []
        counts = {name: self._counts(manifest, folder, name, wrong) for name in TABLES}
        for key in sorted(counts["ads"].keys() | counts["users"].keys()):
            both = [counts[name].get(key, 0) for name in TABLES]
            # In geo mode parts of steps are added, in another order in each table.
            if not np.isclose(both[0], both[1], rtol=1e-5 if self.mode == "geo" else 0.0, atol=0.0):
                wrong.append(f"key {key} was pushed {both[0]} and {both[1]} times")
        steps = list(getattr(manifest, "steps", ())) or [0] * self.num_workers
        for worker in range(self.num_workers):
            own = {counts[name].get(key, 0) for name in TABLES for key in own_ids(worker, self.num_servers)}
            expected = -(-steps[worker] // K_STEPS) if self.mode == "geo" else steps[worker]
            if len(own) > 1 or not np.allclose(list(own), expected, 1e-5):
                wrong.append(f"worker {worker}: step {steps[worker]} in the manifest, and its rows {sorted(own)}")
        dense = [-value for value in self._dense(manifest, folder)]
        if not np.allclose(dense, dense[0] if self.mode == "geo" else sum(steps), 1e-5):
            wrong.append(f"dense parameters are of {sorted(set(dense))} steps, expected {sum(steps)}")
        if len(set(getattr(manifest, "versions", ()))) != 1:
            wrong.append("servers are of different versions")
        return wrong

    def _counts(self, manifest: Any, folder: Path, name: str, wrong: list[str]) -> dict[int, float]:
        found: dict[int, float] = {}
        for piece in manifest.tables[name]:
            rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
            for key, values, state in zip(rows["keys"], rows["values"], rows["state"], strict=True):
                if self.mode == "geo":
                    found[int(key)] = -float(values[0])
                    continue
                count = int(state[0])
                found[int(key)] = count
                if not np.array_equal(values, _value(count)):
                    wrong.append(f"table {name!r}, key {key}: its state is of update {count}, its value is not")
        return found

    @staticmethod
    def _dense(manifest: Any, folder: Path) -> Iterator[float]:
        for piece in manifest.dense:
            rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
            for name, values in rows.items():
                if name.endswith("values"):
                    yield from values.reshape(-1).tolist()


_values = [np.zeros(WIDTH, np.float32)]


def _value(count: int) -> Any:
    """Of a row after so many updates, as the core computes it."""
    rule = _native.Rule("adagrad", dict(fleet.rules.Adagrad(lr=LR).args))
    while len(_values) <= count:
        values, state = _values[-1].copy(), np.full(rule.state_width(WIDTH), len(_values) - 1, np.float32)
        rule.apply(values, state, np.ones(WIDTH, np.float32), LR)
        _values.append(values)
    return _values[count]
