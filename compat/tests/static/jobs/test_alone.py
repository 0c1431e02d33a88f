"""`fleet` over a program in a job of one process: what its server begins with, and how often the worker leaves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.api import Fleet
from fleet.errors import CheckpointError, NotReadyError, NotSupportedError
from fleet.ps.job.placement import RoundRobin
from fleet.ps.server.service import Service
from fleet_programs import layers
from fleet_programs.jobs import running
from fleet_programs.jobs.current import main_program_of, startup_program_of

FEED = {"x": np.ones((2, 3), np.float32)}


def nothing(_: Fleet) -> None:
    pass


class Alone:
    """A program with a schedule, so that the trainer has a counter of its own; `before` comes before `minimize`."""

    def __init__(self, before: Callable[[Fleet], None] = nothing) -> None:
        self.fleet, self.scope, self.executor = Fleet(), static.Scope(), static.Executor()
        self.fleet.init()
        before(self.fleet)
        with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
            self.loss = layers.mean(layers.fc(static.data("x", [None, 3]), 1, act="sigmoid"))
            rate = layers.exponential_decay(0.5, 1, 0.5, staircase=True)
            self.fleet.distributed_optimizer(static.optimizer.Adam(rate)).minimize(self.loss)

    def start(self) -> None:
        self.executor.run(startup_program_of(self.fleet), scope=self.scope)

    def train(self, steps: int = 3) -> list[float]:
        run, main = self.executor.run, main_program_of(self.fleet)
        return [float(run(main, FEED, [self.loss], self.scope)[0][0]) for _ in range(steps)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """What servers of this process are asked, by method."""
    counts = Counter[str]()
    handle = Service.handle

    def counted(self: Service, method: str, *given: Any) -> Any:
        counts[method] += 1
        return handle(self, method, *given)

    monkeypatch.setattr(Service, "handle", counted)
    yield counts
    running.leave()


def test_a_save_into_the_folder_of_another_run_keeps_what_is_there(tmp_path: Path) -> None:
    """The last save is what loads, whichever of the two kinds it is."""
    folder, main, scope = tmp_path / "saved", static.Program(), static.Scope()
    with static.scope_guard(scope), static.program_guard(main, static.Program()):
        weight = static.create_parameter([2], "float32", "other")
        executor = static.Executor()
        executor.run(static.default_startup_program())
        static.io.save_persistables(executor, folder, main)
    first = Alone()
    with static.scope_guard(first.scope):
        first.start()
        first.train()
        first.fleet.save_persistables(first.executor, folder)
        first.fleet.stop_worker()
    first.fleet.shutdown()
    assert {"other.npy", "manifest.json"} <= {path.name for path in folder.iterdir()}
    with static.scope_guard(scope), static.program_guard(main):
        with pytest.raises(CheckpointError, match="has no variable 'other'"):
            static.io.load_persistables(executor, folder, main)  # of the servers
        scope.var("other").get_tensor().set(np.array([4.0, 5.0], "float32"), executor.device)
        static.io.save_persistables(executor, folder, main)
        scope.var("other").get_tensor().set(np.zeros(2, "float32"), executor.device)
        static.io.load_persistables(executor, folder, main)
        assert scope.tensors[weight.name].tolist() == [4.0, 5.0]


def test_the_server_inside_begins_with_a_checkpoint(tmp_path: Path, calls: Counter[str]) -> None:
    first = Alone()
    with static.scope_guard(first.scope):
        first.start()
        first.train()
        first.fleet.save_persistables(first.executor, tmp_path / "saved")
        expected = first.train()
        first.fleet.stop_worker()
    first.fleet.shutdown()

    def choose(fleet: Fleet) -> None:
        fleet.init_server(tmp_path / "saved")

    for early, late in ((choose, nothing), (nothing, choose)):  # before `minimize`, and after it
        one = Alone(early)
        late(one.fleet)
        one.fleet.init_worker()
        one.start()
        assert one.train() == expected
        with static.scope_guard(one.scope):
            one.fleet.stop_worker()
        one.fleet.shutdown()
    assert calls["Leave"] == 3
    new = Alone()
    new.start()
    assert new.train() != expected, "shutdown forgets the checkpoint"
    new.executor.close()
    new.fleet.shutdown()


def test_the_worker_leaves_once(calls: Counter[str]) -> None:
    one = Alone()
    with static.scope_guard(one.scope):
        one.start()
        one.train(1)
        one.fleet.stop_worker()
        one.fleet.stop_worker()
        one.fleet.shutdown()
        one.fleet.stop_worker()
    one.executor.close()
    running.leave()
    assert calls["Leave"] == 1


def test_what_the_worker_of_a_program_refuses() -> None:
    one = Alone()
    with pytest.raises(NotSupportedError, match="minimize.. has dealt a program's parameters to the servers; give"):
        one.fleet.init_worker(RoundRobin())
    with pytest.raises(NotReadyError, match="fleet.flush.. needs the servers; run the startup program first"):
        one.fleet.flush()
    one.fleet.shutdown()


def test_a_question_about_programs_does_not_make_the_job_one_of_programs() -> None:
    one = Fleet()
    one.init()
    with pytest.raises(NotReadyError, match="fleet_programs.main_program: call fleet.distributed_optimizer"):
        _ = main_program_of(one)
    one.init_worker()
    one.flush()
    one.stop_worker()
    one.shutdown()
