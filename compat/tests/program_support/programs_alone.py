"""A small program with a table, in a job of one process: its server is inside."""

from __future__ import annotations

from typing import Any

import numpy as np

import fleet_programs as static
from fleet.api import Fleet
from fleet.strategy import DistributedStrategy
from fleet_programs import layers, optimizer
from fleet_programs.jobs.trainer import Trainer

HEIGHT = 12


def geo(k_steps: int = 3) -> DistributedStrategy:
    strategy = DistributedStrategy()
    strategy.a_sync = True
    strategy.a_sync_configs.k_steps = k_steps
    return strategy


def feed(step: int = 0, bad: float | None = None) -> dict[str, Any]:
    ids = np.random.default_rng(step).integers(0, HEIGHT - 2, (6, 1))
    return {"ids": ids, "y": np.full((6, 1), ids % 3 if bad is None else bad, np.float32)}


class Alone:
    """Built, and distributed unless `how` is None; `how` is what distributed_optimizer is given besides."""

    def __init__(self, how: Any = (), by: Any = None, is_distributed: bool = False) -> None:
        self.fleet, self.scope, self.executor = Fleet(), static.Scope(), static.Executor()
        self.fleet.init()
        self.main, self.startup = static.Program(), static.Program()
        self.main.random_seed = self.startup.random_seed = 5
        with self.building():
            ids, y = static.data("ids", [None, 1], "int64"), static.data("y", [None, 1])
            rows = layers.embedding(ids, [HEIGHT, 4], is_sparse=True, is_distributed=is_distributed, param_attr="rows")
            self.guess = layers.fc(rows, 1)
            self.loss = layers.mean(layers.square_error_cost(self.guess, y))
            self.evaluation = self.main.clone(for_test=True)
            self.by = optimizer.Momentum(0.1, 0.9) if by is None else by
            if how is not None:
                self.by = self.fleet.distributed_optimizer(self.by, *([how] if how else []))
                self.made = self.by.minimize(self.loss)

    def building(self) -> Any:
        """Layers go to its programs."""
        from contextlib import ExitStack

        stack = ExitStack()
        stack.enter_context(static.program_guard(self.main, self.startup))
        stack.enter_context(static.unique_name.guard())
        return stack

    def start(self) -> Alone:
        self.executor.run(self.startup, scope=self.scope)
        return self

    def step(self, number: int = 0, bad: float | None = None) -> float:
        return float(self.executor.run(self.main, feed(number, bad), [self.loss], self.scope)[0][0])

    def train(self, steps: range) -> list[float]:
        return [self.step(number) for number in steps]

    def scores(self) -> Any:
        """What evaluation says, with the rows that are on servers."""
        return self.executor.run(self.evaluation, feed(50), [self.guess], self.scope)[0]

    @property
    def trainer(self) -> Trainer:
        found = Trainer.at(self.scope)
        assert found is not None
        return found

    def end(self) -> None:
        self.fleet.stop_worker()
        self.fleet.shutdown()
