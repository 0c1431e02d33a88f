"""Strategies and the fleet of version 1.x beside servers, versions, and readers of workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet import api
from fleet.errors import NotSupportedError, UnknownFieldError, UsageError, UsageTypeError
from fleet.roles import Role, UserDefinedRoleMaker
from fleet.strategy import Mode
from fleet_paddle.jobs import batch_reader, older_fleet
from fleet_paddle.strategies.runtime_config import TrainerRuntimeConfig
from fleet_paddle.strategies.server_modes import StrategyFactory
from fleet_paddle.tools.require import require_version
from fleet_programs.transpiler import DistributeTranspilerConfig


def test_parts_are_asked_for_and_given_back() -> None:
    strategy: Any = StrategyFactory.create_geo_strategy(7)
    config = strategy.get_program_config()
    assert (config.sync_mode, config.geo_sgd_mode, config.geo_sgd_need_push_nums) == (False, True, 7)
    strategy.set_program_config({"geo_sgd_mode": False, "half_async": True})
    modes = [strategy.mode]
    strategy.set_program_config(DistributeTranspilerConfig())
    assert [*modes, strategy.mode] == [Mode.HALF_ASYNC, Mode.SYNC]
    strategy.set_trainer_runtime_config({"communicator_send_queue_size": 4, "max_merge_var_num": 3})
    assert (strategy.a_sync_configs.send_queue_size, strategy.a_sync_configs.max_merge_var_num) == (4, 3)
    runtime = strategy.get_trainer_runtime_config()
    assert runtime.send_queue_size == 4
    runtime.send_wait_times = 9
    strategy.set_trainer_runtime_config(runtime)
    assert strategy.a_sync_configs.send_wait_times == 9
    build: Any = StrategyFactory.create_async_strategy().get_build_strategy()
    assert build.async_mode
    strategy.set_build_strategy({"memory_optimize": True, "trainers_endpoints": ["a:1"]})
    assert strategy.get_build_strategy().memory_optimize
    execution = static.ExecutionStrategy(num_threads=4)
    strategy.set_execute_strategy(execution)
    assert strategy.get_execute_strategy() is execution


def test_what_is_no_part_of_a_strategy() -> None:
    strategy: Any = StrategyFactory.create_sync_strategy()
    config = DistributeTranspilerConfig()
    config.slice_var_up = False
    with pytest.raises(NotSupportedError, match="slice_var_up is no part of a strategy; give the config itself"):
        strategy.set_program_config(config)
    for call in (strategy.set_program_config, strategy.set_trainer_runtime_config, strategy.set_build_strategy):
        with pytest.raises(UsageTypeError, match=r"or a dict.*, got int"):
            call(3)
    with pytest.raises(UnknownFieldError, match="TrainerRuntimeConfig has no field 'send_queue'"):
        TrainerRuntimeConfig(send_queue=3)
    with pytest.raises(NotSupportedError, match="num_iteration_per_run must be 1"):
        strategy.set_execute_strategy({"num_iteration_per_run": 2})
    with pytest.raises(UsageError, match="trainers_endpoints must be a list"):
        strategy.set_build_strategy({"trainers_endpoints": "a:1"})


def test_the_fleet_of_version_1(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = api.Fleet()
    monkeypatch.setattr(older_fleet, "shared", shared)
    shared.init(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:1"]))
    total = np.zeros(3)
    older_fleet.fleet.all_reduce_worker([1.0, 2.0, 3.0], total)
    assert total.tolist() == [1, 2, 3]
    with pytest.raises(UsageError, match="output must have 3 elements, got 2"):
        older_fleet.fleet.all_reduce_worker([1.0, 2.0, 3.0], np.zeros(2))
    with pytest.raises(UsageTypeError, match="output must be a numpy array, got list"):
        older_fleet.fleet.all_reduce_worker([1.0], [0.0])
    shared.shutdown()
    begun: list[object] = []
    monkeypatch.setattr(shared, "init_server", begun.append)
    for said in ("", None, "saved"):
        older_fleet.fleet.init_server(said)
    assert begun == [None, None, "saved"]
    with pytest.raises(NotSupportedError, match="load_model: mode must be 0, got 1"):
        older_fleet.fleet.load_model("folder", 1)
    with pytest.raises(AttributeError, match=r"fleet.save_checkpoint is not built: use fleet.save_persistables"):
        older_fleet.fleet.save_checkpoint()
    general = older_fleet.GeneralRoleMaker(hdfs_name="hdfs://a", hdfs_ugi="u,p", path="/tmp/b")
    assert general.worker_num() == 1


def test_versions() -> None:
    require_version("1.6.0")
    require_version("1.5", "2.0.0")
    for bounds in (("2.0.1",), ("1.5", "1.8.5")):
        with pytest.raises(UsageError, match=r"^version .* is required, and the names here are those of 2.0.0$"):
            require_version(*bounds)
    with pytest.raises(UsageError, match="min_version must be numbers with dots between them"):
        require_version("new")
    with pytest.raises(UsageTypeError, match=r"min_version must be text, got 1.6"):
        require_version(1.6)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rank", "wanted"), [(0, [0, 2]), (1, [1, 3])])
def test_each_worker_takes_its_batches(rank: int, wanted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "get_rank", lambda: rank)
    monkeypatch.setattr(batch_reader, "get_world_size", lambda: 2)
    assert list(batch_reader.distributed_batch_reader(lambda: range(5))()) == wanted
