"""The fleet API over programs: servers and workers of one job, each with its own `Fleet`, in one process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import fleet_programs as static
from fleet.api import Fleet
from fleet.errors import NotReadyError, NotSupportedError
from fleet.net import Hold
from fleet.roles import Role, UserDefinedRoleMaker
from fleet.strategy import DistributedStrategy
from fleet_programs.jobs.current import main_program_of, startup_program_of
from fleet_programs.program.variable import Variable
from program_support.programs_cluster import LIMIT_S
from program_support.programs_models import DEFAULTS, Model, ctr, mlp, train_here

pytestmark = pytest.mark.timeout(300)
BEFORE, AFTER = range(6), range(6, 12)
TOLERANCE = 1e-5


class Member:
    """A process of the job: its Fleet, and the program that `minimize` made for it."""

    def __init__(
        self, role: Role, index: int, endpoints: Sequence[str] = (), strategy: DistributedStrategy | None = None
    ) -> None:
        self.index = index
        self.strategy = strategy
        self.fleet = Fleet()
        maker = None
        if endpoints:
            maker = UserDefinedRoleMaker(current_id=index, role=role, worker_num=2, server_endpoints=list(endpoints))
        self.fleet.init(maker)
        self.model: Model = ctr(self._minimize)
        self.scope, self.executor = static.Scope(), static.Executor()

    def _minimize(self, loss: Variable) -> object:
        given = [] if self.strategy is None else [self.strategy]
        return self.fleet.distributed_optimizer(DEFAULTS["ctr"](), *given).minimize(loss)

    def start(self) -> None:
        self.fleet.init_worker()
        self.executor.run(startup_program_of(self.fleet), scope=self.scope)

    def train(self, steps: Sequence[int]) -> list[float]:
        given = [self.model.batch(step, self.index) for step in steps]
        run, main = self.executor.run, main_program_of(self.fleet)
        return [float(run(main, feed, [self.model.loss], self.scope)[0][0]) for feed in given]


class Job(ExitStack):
    """Two servers that serve, and two workers that have run their startup programs."""

    def __init__(self, model_dir: Path | None = None) -> None:
        super().__init__()
        endpoints = [str(self.enter_context(Hold.any_port()).endpoint) for _ in range(2)]
        self.enter_context(mock.patch.dict(os.environ, FLEET_JOB_ID="test"))
        servers, self.workers = (
            [Member(role, index, endpoints) for index in range(2)] for role in (Role.SERVER, Role.WORKER)
        )
        self._pool = self.enter_context(ThreadPoolExecutor(4))
        for server in servers:
            server.fleet.init_server(model_dir)
        self._serving = [self._pool.submit(server.fleet.run_server) for server in servers]
        self.callback(self._end, [*servers, *self.workers])
        self.all(Member.start)

    def all(self, do: Any) -> list[Any]:
        running: list[Future[Any]] = [self._pool.submit(do, worker) for worker in self.workers]
        return [one.result(LIMIT_S) for one in running]

    def _end(self, members: list[Member]) -> None:
        for worker in self.workers:
            with static.scope_guard(worker.scope):
                worker.fleet.stop_worker()
        _, waiting = wait(self._serving, LIMIT_S)
        for member in members:
            member.fleet.shutdown()
        assert not waiting, "servers did not end when every worker had left"


def test_a_job_without_a_mode_is_in_step(tmp_path: Path) -> None:
    expected = train_here(ctr(), [*BEFORE, *AFTER])
    with Job() as job:
        losses = job.all(lambda worker: worker.train(BEFORE))
        np.testing.assert_allclose(np.mean(losses, 0), expected[:6], rtol=TOLERANCE)
        first = job.workers[0]
        with static.scope_guard(first.scope):
            first.fleet.save_persistables(first.executor, tmp_path / "saved")
            stats = first.fleet.server_stats()
            block = first.model.main.global_block()
            feeds = list(first.model.batch(0, 0))
            first.fleet.save_inference_model(first.executor, tmp_path / "served", feeds, [block.var(first.model.loss)])
            evaluated = first.executor.run(
                first.model.main.clone(for_test=True), first.model.batch(50, 0), [first.model.loss], first.scope
            )[0]
    assert [one["pushes"] for one in stats] == [12, 12]
    scope = static.Scope()
    with static.scope_guard(scope):
        program, names, targets = static.io.load_inference_model(tmp_path / "served", first.executor)
        served = first.executor.run(program, {name: first.model.batch(50, 0)[name] for name in names}, targets)[0]
    np.testing.assert_allclose(served, evaluated, rtol=1e-6)
    with Job(model_dir=tmp_path / "saved") as job:
        losses = job.all(lambda worker: worker.train(AFTER))
    np.testing.assert_allclose(np.mean(losses, 0), expected[6:], rtol=TOLERANCE)


def test_a_process_alone_has_a_server_inside_it(tmp_path: Path) -> None:
    alone = Member(Role.WORKER, 0)
    with static.scope_guard(alone.scope):
        alone.start()
        losses = alone.train(BEFORE)
        alone.fleet.save_persistables(alone.executor, tmp_path / "saved")
        after = alone.train(AFTER)
        alone.fleet.load_model(tmp_path / "saved")
        assert alone.train(AFTER) == after
        np.testing.assert_allclose([*losses, *after], train_here(ctr(), [*BEFORE, *AFTER], 1), rtol=TOLERANCE)
        alone.fleet.stop_worker()
        alone.fleet.init_server(tmp_path / "saved")
        alone.start()
        assert alone.train(AFTER) == after
        alone.fleet.stop_worker()
    alone.fleet.shutdown()


def test_floats_of_programs_travel_in_fewer_bytes() -> None:
    strategy = DistributedStrategy()
    strategy.wire_configs = {"gradients": "bfloat16", "dense_gradients": "bfloat16"}
    alone = Member(Role.WORKER, 0, strategy=strategy)
    with static.scope_guard(alone.scope):
        alone.start()
        losses, exact = alone.train([*BEFORE, *AFTER]), train_here(ctr(), [*BEFORE, *AFTER], 1)
        alone.fleet.stop_worker()
    alone.fleet.shutdown()
    np.testing.assert_allclose(losses, exact, rtol=0.02)
    assert losses[1:] != exact[1:]
    fleet = Fleet()
    fleet.init(is_collective=True)
    try:
        with pytest.raises(NotSupportedError, match="strategy.wire_configs.gradients is for jobs with servers"):
            mlp(lambda loss: fleet.distributed_optimizer(DEFAULTS["mlp"](), strategy).minimize(loss))
    finally:
        fleet.shutdown()


def test_a_strategy_that_programs_do_not_know() -> None:
    fleet = Fleet()
    fleet.init(UserDefinedRoleMaker(current_id=0, role=Role.WORKER, worker_num=1, server_endpoints=["127.0.0.1:6174"]))
    strategy = DistributedStrategy()
    strategy.dense = "allreduce"
    try:
        with pytest.raises(NotReadyError, match=r"distributed_optimizer\(optimizer\).minimize\(loss\) first"):
            _ = main_program_of(fleet)
        with pytest.raises(NotSupportedError, match="strategy.dense is not built for programs; leave it at"):
            mlp(lambda loss: fleet.distributed_optimizer(DEFAULTS["mlp"](), strategy).minimize(loss))
    finally:
        fleet.shutdown()


def test_programs_of_a_collective_job_leave_no_steps_out() -> None:
    fleet = Fleet()
    fleet.init(is_collective=True)
    strategy = DistributedStrategy()
    strategy.nonfinite_gradients = "skip"
    try:
        with pytest.raises(NotSupportedError, match="nonfinite_gradients = 'skip': in a collective job the updates"):
            mlp(lambda loss: fleet.distributed_optimizer(DEFAULTS["mlp"](), strategy).minimize(loss))
    finally:
        fleet.shutdown()
