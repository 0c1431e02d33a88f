"""Servers and trainers of a program as threads of this process, over real gRPC on ports that nobody else can take."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import fleet_programs as static
from fleet import _native
from fleet.checkpoint import state_form
from fleet.net import Endpoint, Hold
from fleet.ps.server import process as server_module
from fleet.ps.server.service import Service
from fleet_programs.jobs.trainer import Trainer as Worker
from fleet_programs.transpiler import DistributeTranspiler, DistributeTranspilerConfig
from fleet_programs.transpiler.planning.plan import Plan
from program_support.programs_models import Feed, Model
from support.fake_table import in_order, joined
from support.parity.saved import Arrays

# Whatever takes longer than this is stuck.
LIMIT_S = 120.0


class Trainer:
    """One trainer: its programs, its scope, and its executor."""

    def __init__(self, model: Model, index: int) -> None:
        self.index = index
        self.model = model
        self.main, self.startup = model.main.clone(), model.startup.clone()
        self.scope, self.executor = static.Scope(), static.Executor()

    def start(self) -> None:
        self.executor.run(self.startup, scope=self.scope)

    def step(self, feed: Feed) -> float:
        return float(self.executor.run(self.main, feed, [self.model.loss], self.scope)[0][0])

    def train(self, steps: Sequence[int]) -> list[float]:
        return [self.step(self.model.batch(step, self.index)) for step in steps]

    @property
    def joined(self) -> Worker:
        """What has joined the servers for the scope."""
        found = Worker.at(self.scope)
        assert found is not None
        return found

    def flush(self) -> None:
        self.joined.flush()

    def stop(self) -> None:
        if self.scope.trainer is not None:
            self.joined.stop()

    def __getitem__(self, name: str) -> Any:
        return self.scope.tensors[name].numpy().copy()


class Cluster:
    """A job of servers and trainers; inside `with` it runs, and every trainer has run its startup program.

    `named` goes to `transpile`, `config` to its config, and `model_dir` is what every server loads. `prepare` may
    change a trainer's programs before they are transpiled.
    """

    def __init__(
        self,
        model: Model,
        num_servers: int = 2,
        num_trainers: int = 2,
        config: dict[str, Any] | None = None,
        model_dir: Path | None = None,
        prepare: Callable[[Trainer], None] | None = None,
        **named: Any,
    ) -> None:
        self.model = model
        self._num_servers = num_servers
        self._config = config or {}
        self._named = {"trainers": num_trainers, **named}
        self._model_dir = model_dir
        self._prepare = prepare
        self._servers: list[Future[Any]] = []
        self._stack = ExitStack()
        self.trainers = [Trainer(model, index) for index in range(num_trainers)]
        self.services: list[Service] = []
        self.calls: list[Counter[str]] = []
        """What each server was asked, by method."""

    def __enter__(self) -> Cluster:
        with ExitStack() as stack:
            endpoints = [str(stack.enter_context(Hold.any_port()).endpoint) for _ in range(self._num_servers)]
            stack.enter_context(mock.patch.dict(os.environ, FLEET_JOB_ID="test"))  # so that servers find ports held
            pool = stack.enter_context(ThreadPoolExecutor(self._num_servers + len(self.trainers)))
            stack.callback(self._end)
            programs = [self._programs(endpoint, endpoints) for endpoint in endpoints]
            self._pool = pool
            self._serve(programs, endpoints)
            for trainer in self.trainers:
                if self._prepare is not None:
                    self._prepare(trainer)
                self._transpiler().transpile(
                    trainer.index,
                    program=trainer.main,
                    startup_program=trainer.startup,
                    pservers=",".join(endpoints),
                    **self._named,
                )
            self.all(Trainer.start, patience_s=LIMIT_S)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Trainers leave, and the servers end by themselves; after a failure they are told to."""
        with self._stack:
            if kind is None:
                self.all(Trainer.stop)
                done, waiting = wait(self._servers, LIMIT_S)
                assert not waiting, "servers did not end when every trainer had left"
                for server in done:
                    server.result()

    def submit(self, do: Callable[..., Any], *args: Any) -> Future[Any]:
        """Let a thread of the cluster do something."""
        return self._pool.submit(do, *args)

    def all(self, do: Callable[[Trainer], Any], patience_s: float = 0.0) -> list[Any]:
        """What every trainer gets, all at once; the first error of a trainer or a server is raised.

        With a patience it is raised when the other trainers have ended too: one that is still asking a server would go
        on asking, for a minute, after that server was told to end.
        """
        running = [self._pool.submit(do, trainer) for trainer in self.trainers]
        wait([*running, *self._failing()], LIMIT_S, FIRST_EXCEPTION)
        wait(running, patience_s)
        for one in (*self._failing(), *(one for one in running if one.done())):
            if one.done():
                one.result()
        _, waiting = wait(running, LIMIT_S)
        assert not waiting, f"{len(waiting)} trainers did not end within {LIMIT_S} s"
        return [one.result() for one in running]

    def train(self, steps: Sequence[int]) -> Any:
        """Losses [steps, trainers]."""
        return np.array(self.all(lambda trainer: trainer.train(steps))).T

    def held(self) -> Arrays:
        """Everything that the servers hold, state of rules included, in the form of `support.parity.saved.saved`."""
        all_holdings = [service.state.holdings for service in self.services]
        found: Arrays = {}
        job = self.plan.job
        for index, spec in enumerate(job.tables):
            tables = [holdings.tables[index] for holdings in all_holdings if holdings is not None]
            rows = in_order(joined([table.export(0, table.num_shards) for table in tables]))
            found |= {f"table {spec.name}, {column}": array for column, array in rows.items()}
        parts: dict[str, list[Any]] = {}
        for server, holdings in enumerate(all_holdings):
            assert holdings is not None
            for group, (values, state) in enumerate(holdings.snapshot()):
                asked = job.dense.groups[group]
                rule = _native.Rule("sum", {}) if job.mode == "geo" else _native.Rule(asked.name, dict(asked.args))
                arrays, _ = state_form(rule.state_width)
                end = arrays * len(values)
                columns = [values, *state[:end].reshape(arrays, len(values))]
                scalars, end = state[end:], 0
                for block in job.dense.blocks:
                    if (block.server, block.group) == (server, group):
                        begin, end = end, end + block.end - block.begin
                        part = [column[begin:end] for column in columns]
                        parts.setdefault(block.parameter, []).append((block.begin, part, scalars))
        for parameter, blocks in parts.items():
            blocks.sort(key=lambda block: block[0])
            whole, *others = (np.concatenate(column) for column in zip(*(part for _, part, _ in blocks), strict=True))
            found[f"dense {parameter}, values"] = whole
            found[f"dense {parameter}, scalars"] = blocks[0][2]
            found |= {f"dense {parameter}, state {number}": array for number, array in enumerate(others)}
        return found

    @property
    def plan(self) -> Plan:
        return Plan.from_note(self.trainers[0].main.notes["servers"])

    def _failing(self) -> list[Future[Any]]:
        return [server for server in self._servers if server.done() and server.exception() is not None]

    def _transpiler(self) -> DistributeTranspiler:
        config = DistributeTranspilerConfig()
        for name, value in self._config.items():
            setattr(config, name, value)
        return DistributeTranspiler(config)

    def _programs(self, endpoint: str, endpoints: Sequence[str]) -> tuple[static.Program, static.Program]:
        transpiler = self._transpiler()
        transpiler.transpile(
            0,
            program=self.model.main.clone(),
            startup_program=self.model.startup.clone(),
            pservers=",".join(endpoints),
            **self._named,
        )
        return transpiler.get_pserver_programs(endpoint)

    def _serve(self, programs: Sequence[tuple[static.Program, static.Program]], endpoints: Sequence[str]) -> None:
        """Start a thread for each server; its service is noted, and the calls that it gets are counted."""
        known: dict[str, Service] = {}
        counts = {endpoint: Counter[str]() for endpoint in endpoints}
        real = server_module.serve

        def serve(service: Any, endpoint: Endpoint, *args: Any) -> bool:
            known[str(endpoint)] = service
            handle = service.handle

            def counted(method: str, *given: Any) -> Any:
                counts[str(endpoint)][method] += 1
                return handle(method, *given)

            service.handle = counted
            is_known.release()
            return real(service, endpoint, *args)

        is_known = threading.Semaphore(0)
        with mock.patch.object(server_module, "serve", serve):
            for main, startup in programs:
                scope, executor = static.Scope(), static.Executor()
                executor.run(startup, scope=scope)
                if self._model_dir is not None:
                    with static.scope_guard(scope):
                        static.io.load_persistables(executor, self._model_dir, main)
                self._servers.append(self._pool.submit(executor.run, main, scope=scope))
            for _ in programs:
                assert is_known.acquire(timeout=LIMIT_S), "a server did not begin"
        self.services = [known[endpoint] for endpoint in endpoints]
        self.calls = [counts[endpoint] for endpoint in endpoints]

    def _end(self) -> None:
        """Let nobody wait any longer: what runs ends, by itself or by an error."""
        for service in self.services:
            service.close()
            service.finished.set()
        for trainer in self.trainers:
            if trainer.scope.trainer is not None:
                trainer.joined.drop()
