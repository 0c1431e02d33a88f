"""Names of jobs with servers, 1.6 to 2.x: communicator, runtime settings, dispatchers, evaluation beside tables."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.api import Fleet
from fleet.errors import NotReadyError, NotSupportedError, UnknownFieldError, UsageError, UsageTypeError
from fleet.strategy import Mode
from fleet_paddle.jobs import inference_job
from fleet_paddle.jobs.communicator import AsyncMode, Communicator
from fleet_paddle.strategies.runtime_config import ServerRuntimeConfig, TrainerRuntimeConfig
from fleet_programs.jobs import running
from fleet_programs.jobs.current import main_program_of, startup_program_of

fluid: Any = import_module("paddle.fluid")
fleet_1: Any = import_module("paddle.fluid.incubate.fleet.parameter_server")
strategies = fleet_1.distribute_transpiler.distributed_strategy

FEED = {"x": np.ones((2, 3), np.float32)}
STRATEGIES: dict[Mode, Any] = {
    Mode.SYNC: strategies.SyncStrategy,
    Mode.ASYNC: strategies.AsyncStrategy,
    Mode.HALF_ASYNC: strategies.HalfAsyncStrategy,
    Mode.GEO: lambda: strategies.GeoStrategy(2),
}


class Job:
    """A program of one process with its server inside; `strategy` says the mode."""

    def __init__(self, strategy: Any, optimizer: Any = None) -> None:
        self.fleet, self.exe = Fleet(), static.Executor()
        self.fleet.init()
        with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
            ids = static.data("ids", [None, 1], "int64")
            rows = static.layers.embedding(ids, [10, 2], is_sparse=True, param_attr=static.ParamAttr("rows"))
            out = static.layers.fc(static.data("x", [None, 3]), 1, act="sigmoid")
            self.loss = static.layers.mean(out) + static.layers.mean(rows)
            self.fleet.distributed_optimizer(optimizer or static.optimizer.SGD(0.5), strategy).minimize(self.loss)

    def train(self, steps: int) -> list[float]:
        feed = {**FEED, "ids": np.array([[1], [3]])}
        runs = (self.exe.run(main_program_of(self.fleet), feed, [self.loss]) for _ in range(steps))
        return [float(loss[0]) for (loss,) in runs]

    def stop(self) -> None:
        self.fleet.stop_worker()
        self.fleet.shutdown()


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with static.scope_guard(static.Scope()):
        yield
        running.leave()


@pytest.mark.parametrize("mode", STRATEGIES)
def test_a_communicator_runs_from_start_to_stop_in_every_mode(mode: Mode) -> None:
    job = Job(STRATEGIES[mode]())
    job.exe.run(startup_program_of(job.fleet))
    communicator = fluid.communicator.Communicator(main_program_of(job.fleet), mode)
    seen = [communicator.is_running()]
    communicator.start()
    seen.append(communicator.is_running())
    losses = job.train(4)
    communicator.stop()
    assert [*seen, communicator.is_running()] == [False, True, False]
    assert losses[-1] < losses[0]
    communicator.stop()
    job.stop()


def test_a_communicator_refuses_what_its_program_does_not_say() -> None:
    job = Job(strategies.GeoStrategy(5))
    program = main_program_of(job.fleet)
    Communicator(program, AsyncMode.GEO_SGD, {"push_vars": {}, "trainers": 1, "push_nums": 5})
    for given, message in (
        ({"mode": Mode.ASYNC}, "mode is <Mode.ASYNC: 'async'>, but the program was cut for <Mode.GEO"),
        ({"mode": 7}, "mode must be one of DistributedMode, or 0 to 3, got 7"),
        ({"kwargs": {"trainers": 2}}, "trainers is 2, but the program was cut for 1"),
        ({"kwargs": {"push_num": 5}}, "kwargs has no 'push_num'; it may have push_vars, trainers and push_nums"),
        ({"envs": {"communicator_send_queue_size": "7"}}, "send_queue_size is 7 in envs, but 2 in the program"),
    ):
        with pytest.raises(UsageError, match=message):
            Communicator(program, **given)
    with pytest.raises(NotReadyError, match="this program has no servers; give it transpiler.get_trainer_program"):
        Communicator(static.Program()).start()
    with pytest.raises(UsageTypeError, match="program must be a Program, got int"):
        Communicator(3)  # type: ignore[arg-type]
    job.stop()


@pytest.mark.parametrize("mode", STRATEGIES)
def test_a_strategy_for_every_mode(mode: Mode) -> None:
    strategy = STRATEGIES[mode]()
    assert strategy.mode is mode
    assert strategy.get_build_strategy().async_mode == (mode is not Mode.SYNC)
    assert isinstance(strategy, strategies.DistributedStrategy)


def test_what_the_factory_makes() -> None:
    factory = strategies.StrategyFactory
    made = [factory.create_sync_strategy(), factory.create_async_strategy(), factory.create_half_async_strategy()]
    assert [one.mode for one in made] == [Mode.SYNC, Mode.ASYNC, Mode.HALF_ASYNC]
    assert factory.create_geo_strategy(update_frequency=9).a_sync_configs.k_steps == 9
    with pytest.raises(UsageError, match="update_frequency must be >= 1, got 0"):
        strategies.GeoStrategy(0)


def test_settings_by_the_names_of_flags() -> None:
    config = TrainerRuntimeConfig()
    config.runtime_configs["communicator_send_queue_size"] = "4"
    config.runtime_configs["communicator_independent_recv_thread"] = "1"
    assert vars(config)["send_queue_size"] == 4
    assert vars(config)["independent_recv_thread"] is True
    assert config.get_communicator_flags()["communicator_send_queue_size"] == "4"
    assert len(config.runtime_configs) == 6
    with pytest.raises(UnknownFieldError, match="TrainerRuntimeConfig has no field 'queue'"):
        config.runtime_configs["communicator_queue"] = 3


def test_threads_of_servers_are_checked_hints() -> None:
    config = ServerRuntimeConfig(rpc_get_thread_num=4)
    config._rpc_send_thread_num = 3
    assert (config.rpc_send_thread_num, config._rpc_get_thread_num, config.rpc_prefetch_thread_num) == (3, 4, 12)
    with pytest.raises(UsageError, match="rpc_send_thread_num must be a number of threads from 1, got 0"):
        config.rpc_send_thread_num = 0
    with pytest.raises(UnknownFieldError, match="has no field 'rpc_thread_num'"):
        config.rpc_thread_num = 2
    strategy = strategies.AsyncStrategy()
    strategy.set_server_runtime_config({"rpc_prefetch_thread_num": 5})
    assert strategy.get_server_runtime_config().rpc_prefetch_thread_num == 5
    strategy.set_server_runtime_config(config)
    assert strategy.get_server_runtime_config() is config
    with pytest.raises(UsageTypeError, match="a ServerRuntimeConfig or a dict is expected, got int"):
        strategy.set_server_runtime_config(3)


def test_dispatchers_are_those_of_the_transpiler() -> None:
    ps_dispatcher = fleet_1.ir.ps_dispatcher
    servers = ps_dispatcher.RoundRobin(["a:1", "b:2"])
    assert servers.dispatch(["w", "v", "u"]) == ["a:1", "b:2", "a:1"]
    assert issubclass(ps_dispatcher.HashName, ps_dispatcher.PSDispatcher)


@pytest.mark.parametrize("name", ["FileInstantDataset", "BoxPSDataset"])
def test_datasets_that_are_not_built_say_why(name: str) -> None:
    with pytest.raises(NotSupportedError, match=rf"{name} is not built: .*; use \w+Dataset"):
        fluid.DatasetFactory().create_dataset(name)
    with pytest.raises(AttributeError, match=f"{name} is not built: "):
        getattr(fluid.dataset, name)


@pytest.mark.parametrize("name", ["InMemoryDataset", "QueueDataset"])
def test_datasets_by_name(name: str) -> None:
    assert type(fluid.DatasetFactory().create_dataset(name)) is getattr(fluid, name)


@pytest.mark.parametrize("kind", [static.optimizer.SGD, static.optimizer.Adam, static.optimizer.Adagrad])
def test_rows_stay_on_servers_while_a_program_is_evaluated(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(strategies.SyncStrategy(), kind(0.1))
    job.exe.run(startup_program_of(job.fleet))
    job.train(3)
    job.fleet.save_persistables(job.exe, tmp_path / "saved")
    expected = job.train(1)
    job.stop()

    fresh = Fleet()
    monkeypatch.setattr(inference_job, "shared", fresh)
    main, startup = static.Program(), static.Program()
    with static.scope_guard(static.Scope()), static.program_guard(main, startup), static.unique_name.guard():
        ids = static.data("ids", [None, 1], "int64")
        rows = static.layers.embedding(ids, [10, 2], is_sparse=True, param_attr=static.ParamAttr("rows"))
        out = static.layers.fc(static.data("x", [None, 3]), 1, act="sigmoid")
        loss = static.layers.mean(out) + static.layers.mean(rows)
        infer, exe = inference_job.DistributedInfer(main, startup), static.Executor()
        infer.init_distributed_infer_env(exe, loss, dirname=tmp_path / "saved")
        program = infer.get_dist_infer_program()
        feed = {**FEED, "ids": np.array([[1], [3]])}
        found = [float(exe.run(program, feed, [loss])[0][0]) for _ in range(2)]
        assert found == expected * 2, "nothing is trained"
        infer.init_distributed_infer_env(exe, loss)  # it is in a job already
        fresh.stop_worker()
        fresh.shutdown()
