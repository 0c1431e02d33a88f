"""`fleet.distributed_optimizer` over programs: what it honours, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.api import Fleet
from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.jobs import strategy_options
from fleet_programs.jobs.current import main_program_of
from fleet_programs.jobs.trainer import Trainer
from fleet_programs.transpiler import DistributeTranspilerConfig
from program_support.programs_alone import Alone


def config(**fields: Any) -> DistributeTranspilerConfig:
    made = DistributeTranspilerConfig()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("fields", "mode", "k_steps"),
    [
        ({}, "sync", 0),
        ({"sync_mode": False}, "async", 0),
        ({"sync_mode": False, "half_async": True}, "half_async", 0),
        ({"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 7}, "geo", 7),
    ],
)
def test_a_config_chooses_the_mode_without_servers_too(fields: dict[str, Any], mode: str, k_steps: int) -> None:
    alone = Alone(config(**fields))
    plan = alone.start().trainer.plan
    assert (plan.job.mode, plan.k_steps, plan.endpoints) == (mode, k_steps, ())
    alone.end()


@pytest.mark.parametrize(
    ("given", "is_collective", "says"),
    [
        (config(mode="nccl2"), False, 'config.mode = "nccl2" is for a collective job, and this one is not'),
        (config(mode="collective", collective_mode="local_sgd"), False, 'config.mode = "collective" is for a coll'),
        (config(collective_mode="local_sgd"), True, 'config.collective_mode = "local_sgd" needs config.mode = "coll'),
        (config(mode="collective"), True, "needs config.collective_mode"),
        (config(mode="pserver"), True, 'config.mode = "pserver" needs servers, and a collective job has none'),
        (config(sync_mode=False), True, "config.sync_mode = False is for servers, and a collective job has none"),
        (config(slice_var_up=False), True, "config.slice_var_up = False is for servers"),
        (config(geo_sgd_mode=True), True, "config.geo_sgd_mode = True is for servers"),
        ("sync", False, "strategy must be a DistributedStrategy or a DistributeTranspilerConfig, got 'sync'"),
        ({"a_sync": True}, True, "strategy must be a DistributedStrategy or"),
    ],
)
def test_a_strategy_that_does_not_fit_the_job(given: Any, is_collective: bool, says: str) -> None:
    with pytest.raises((UsageError, UsageTypeError), match=says):
        strategy_options.check(given, is_collective)
    strategy_options.check(config(mode="nccl2"), True)
    strategy_options.check(config(mode="collective", collective_mode="local_sgd"), True)


def test_a_strategy_of_another_type_leaves_the_job_as_it_was() -> None:
    fleet = Fleet()
    fleet.init()
    with pytest.raises(UsageTypeError, match="strategy must be"):
        fleet.distributed_optimizer(optimizer.SGD(0.1), "sync")
    assert fleet.registered_job is None
    fleet.shutdown()


def test_updates_that_are_added_by_hand_distribute_the_program() -> None:
    whole = Alone()
    by_hand = Alone(None)
    with by_hand.building():
        distributed = by_hand.fleet.distributed_optimizer(by_hand.by)
        pairs = distributed.backward(by_hand.loss)
        with pytest.raises(UsageError, match="params_grads is empty"):
            distributed.apply_gradients([])
        assert distributed.apply_gradients(pairs) == []  # servers make them
    assert str(by_hand.main) == str(whole.main)
    assert str(by_hand.startup) == str(whole.startup)
    other = Alone(None)
    with other.building():
        distributed = other.fleet.distributed_optimizer(other.by)
        distributed.apply_optimize(other.loss, other.startup, distributed.backward(other.loss))
    assert str(other.main) == str(whole.main)
    assert main_program_of(other.fleet) is other.main


def test_an_optimizer_can_be_copied() -> None:
    alone = Alone(None)
    made = alone.fleet.distributed_optimizer(alone.by)
    assert copy.copy(made).inner is alone.by
    assert copy.copy(made).type == "momentum"
    with pytest.raises(AttributeError, match="nothing"):
        _ = made.nothing


def test_a_program_that_cannot_be_distributed_stays_as_it_was() -> None:
    alone = Alone(None)
    before = str(alone.main), str(alone.startup)
    decayed = optimizer.SGD(0.1, regularization=static.regularizer.L1Decay(0.1))
    with alone.building():
        with pytest.raises(UsageError, match="L1Decay, which servers do not know"):
            alone.fleet.distributed_optimizer(decayed).minimize(alone.loss)
        assert (str(alone.main), str(alone.startup)) == before
        with pytest.raises(NotReadyError):
            _ = main_program_of(alone.fleet)
        alone.fleet.distributed_optimizer(alone.by).minimize(alone.loss)
        with pytest.raises(UsageError, match="transpiled already"):
            alone.fleet.distributed_optimizer(alone.by).minimize(alone.loss)
    alone.start()
    assert alone.step() > 0
    alone.end()


def test_variables_of_the_script_stay_those_of_the_program() -> None:
    alone = Alone()
    block = alone.main.global_block()
    ops, pairs = alone.made
    assert ops == []
    assert [parameter.name for parameter, _ in pairs] == ["fc_0.w_0", "fc_0.b_0"], "tables are no parameters here"
    for var in (alone.loss, alone.guess, *(one for pair in pairs for one in pair)):
        assert block.vars[var.name] is var
        assert var.block is block
    with static.program_guard(alone.main, alone.startup):
        doubled = layers.scale(alone.guess, 2.0)
    alone.start()
    feed = {"ids": np.array([[1]]), "y": np.ones((1, 1), np.float32)}
    one, two = alone.executor.run(alone.main, feed, [alone.guess, doubled], alone.scope)
    np.testing.assert_array_equal(two, 2 * one)
    alone.end()


def test_the_calls_find_a_worker_in_whichever_scope_it_is() -> None:
    alone = Alone().start()
    alone.step()
    assert static.global_scope() is not alone.scope
    assert alone.fleet.server_stats()[0]["pushes"] == 1
    alone.fleet.flush()
    first, alone.scope = alone.scope, static.Scope()
    alone.start()
    with pytest.raises(UsageError, match="fleet.flush.*: 2 scopes of this process have joined the servers; choose one"):
        alone.fleet.flush()
    with static.scope_guard(first):
        alone.fleet.flush()
    alone.fleet.stop_worker()
    assert not any(trainer is None or trainer.has_joined for trainer in map(Trainer.at, (first, alone.scope)))
    with pytest.raises(NotReadyError, match="fleet.flush.. needs the servers"):
        alone.fleet.flush()
    alone.fleet.shutdown()


def test_shutdown_lets_the_workers_of_programs_go() -> None:
    alone = Alone().start()
    alone.step()
    alone.fleet.shutdown()
    assert not alone.trainer.has_joined
    with pytest.raises(NotReadyError, match="this worker has stopped"):
        alone.step()
    other = Alone(by=optimizer.SGD(0.1))
    other.scope = alone.scope  # free again, for another job
    other.start().step()
    other.end()
