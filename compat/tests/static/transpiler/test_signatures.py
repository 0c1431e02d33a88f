"""`transpile`: every order of arguments that the documents have written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import EndpointError, NotSupportedError, UnknownFieldError, UsageError, UsageTypeError
from fleet.strategy.mode import Mode
from fleet_programs.program.program import Program, default_main_program, default_startup_program
from fleet_programs.transpiler import DistributeTranspilerConfig, HashName, RoundRobin
from fleet_programs.transpiler.planning.arguments import Arguments, read

SERVERS = "10.0.0.1:6174,10.0.0.2:6174"
MAIN, STARTUP = Program(), Program()


def config(**fields: Any) -> DistributeTranspilerConfig:
    made = DistributeTranspilerConfig()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def parsed(*args: Any, config: DistributeTranspilerConfig | None = None, **named: Any) -> Arguments:
    return read(args, named, config or DistributeTranspilerConfig())


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (([], [], 1, MAIN, SERVERS, 2, HashName, False), {}),  # 0.12
        (([], [], 1, MAIN), {"pservers": SERVERS, "trainers": 2, "split_method": HashName, "sync_mode": False}),
        ((1, MAIN, SERVERS, 2, HashName, False), {}),  # 0.13
        ((1, MAIN, SERVERS, 2, True, HashName, False), {}),  # 0.14
        ((1, MAIN, SERVERS, 2), {"slice_var_up": True, "split_method": HashName, "sync_mode": False}),
        ((1, MAIN, SERVERS, 2, False), {"split_method": HashName}),  # 0.15
        ((1, MAIN, SERVERS, 2, False, STARTUP, "10.0.0.1:6174"), {"split_method": HashName}),  # 1.0
        ((1,), {"program": MAIN, "pservers": SERVERS, "trainers": 2, "sync_mode": False, "split_method": HashName}),
        ((), {"optimize_ops": [], "params_grads": [], "trainer_id": 1, "program": MAIN, "pservers": SERVERS,
              "trainers": 2, "sync_mode": False, "split_method": HashName}),
    ],
)  # fmt: skip
def test_every_signature_says_the_same(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    found = parsed(*args, **named)
    assert (found.trainer_id, found.num_trainers, found.mode) == (1, 2, Mode.ASYNC)
    assert found.endpoints == ("10.0.0.1:6174", "10.0.0.2:6174")
    assert found.main is MAIN
    assert found.split_method is HashName
    assert found.slice_var_up


def test_defaults() -> None:
    found = parsed([], [], pservers=SERVERS, trainers=2)  # as the guide of 0.12 calls it
    assert (found.trainer_id, found.mode, found.split_method) == (0, Mode.SYNC, RoundRobin)
    assert found.main is default_main_program()
    assert found.startup is default_startup_program()
    alone = parsed(0)
    assert (alone.endpoints, alone.num_trainers) == (("127.0.0.1:6174",), 1)
    assert parsed(0, MAIN, SERVERS, 2, True, STARTUP).startup is STARTUP


def test_an_argument_beats_the_config() -> None:
    given = config(slice_var_up=True, split_method=HashName)
    assert not parsed(0, slice_var_up=False, config=given).slice_var_up
    assert parsed(0, split_method=RoundRobin, config=given).split_method is RoundRobin
    assert parsed(0, sync_mode=True, config=config(sync_mode=False)).mode is Mode.SYNC
    assert parsed(0, config=config(sync_mode=False)).mode is Mode.ASYNC


@pytest.mark.parametrize(
    ("fields", "mode", "k_steps"),
    [
        ({"half_async": True}, Mode.HALF_ASYNC, 0),
        ({"sync_mode": False, "half_async": True, "runtime_split_send_recv": True}, Mode.HALF_ASYNC, 0),
        ({"sync_mode": False, "half_async": True, "completely_not_async": True}, Mode.SYNC, 0),
        ({"geo_sgd_mode": True}, Mode.GEO, 100),
        ({"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 7}, Mode.GEO, 7),
    ],
)
def test_modes(fields: dict[str, Any], mode: Mode, k_steps: int) -> None:
    found = parsed(0, config=config(**fields))
    assert (found.mode, found.k_steps) == (mode, k_steps)


def test_without_servers() -> None:
    found = parsed(1, trainers=SERVERS, current_endpoint="10.0.0.2:6174", config=config(mode="nccl2"))
    assert (found.kind, found.endpoints, found.num_trainers, found.trainer_id) == (
        "nccl2", ("10.0.0.1:6174", "10.0.0.2:6174"), 2, 1,
    )  # fmt: skip
    local_sgd = config(mode="collective", collective_mode="local_sgd")
    assert parsed(0, trainers=SERVERS, config=local_sgd).kind == "collective"


NCCL2 = {"mode": "nccl2"}


@pytest.mark.parametrize(
    ("args", "named", "fields", "error", "message"),
    [
        ((2,), {"trainers": 2}, {}, UsageError, "trainer_id must be below the number of trainers, 2, got 2"),
        ((-1,), {}, {}, UsageError, "trainer_id must be >= 0, got -1"),
        (("0",), {}, {}, UsageTypeError, "trainer_id must be an int, got '0'"),
        ((0,), {"trainers": 0}, {}, UsageError, "trainers must be >= 1, got 0"),
        ((0,), {"trainers": SERVERS}, {}, UsageTypeError, "trainers must be the number of trainers, got '10.0.0.1"),
        ((0,), {"pservers": "10.0.0.1:1,10.0.0.1:1"}, {}, EndpointError, "10.0.0.1:1"),
        ((0,), {"pservers": "10.0.0.1"}, {}, EndpointError, "has no port"),
        ((0,), {"pservers": ["10.0.0.1:1"]}, {}, UsageTypeError, "pservers must be a comma list of HOST:PORT"),
        ((0,), {"program": 3}, {}, UsageTypeError, "program must be a Program, got int"),
        ((0,), {"sync": True}, {}, UsageTypeError, "transpile has no argument 'sync'; it has"),
        ((0,), {"trainer_id": 0}, {}, UsageTypeError, "trainer_id is given twice"),
        ((0, MAIN, SERVERS, 2, True, STARTUP, SERVERS, 8), {}, {}, UsageTypeError, "at most 7 arguments by position"),
        ((0,), {"sync_mode": 1}, {}, UsageTypeError, "sync_mode must be True or False, got 1"),
        ((0,), {"split_method": "HashName"}, {}, UsageTypeError, "split_method must be the class of a dispatcher"),
        ((0,), {"sync_mode": True}, {"geo_sgd_mode": True}, UsageError, "geo_sgd_mode needs sync_mode False"),
        ((0,), {}, {"sync_mode": True, "half_async": True}, UsageError, "half_async needs sync_mode False"),
        ((0,), {}, {"half_async": True, "geo_sgd_mode": True}, UsageError, "two modes; choose one"),
        ((0,), {}, {"completely_not_async": True}, UsageError, "completely_not_async needs half_async"),
        ((0,), {"trainers": 2}, NCCL2, UsageTypeError, 'a comma list of HOST:PORT in mode "nccl2", got 2'),
        ((0,), {"trainers": SERVERS, "pservers": SERVERS}, NCCL2, UsageError, "pservers is for servers"),
        ((0,), {"trainers": SERVERS, "sync_mode": False}, NCCL2, UsageError, "is synchronous; geo_sgd_mode"),
        ((0,), {"trainers": SERVERS}, {**NCCL2, "geo_sgd_mode": True}, UsageError, "is synchronous; geo_sgd_mode"),
        ((0,), {}, {"collective_mode": "local_sgd"}, UsageError, 'needs config.mode = "collective", got "pserver"'),
        ((2,), {"trainers": SERVERS}, NCCL2, UsageError, "trainer_id must be below"),
        ((0,), {"trainers": SERVERS, "current_endpoint": "1.1.1.1:1"}, NCCL2, UsageError, "give the endpoint of this"),
        ((0,), {"trainers": SERVERS}, {"mode": "collective"}, UsageError, "needs config.collective_mode"),
        ((0,), {"trainers": "a:1"}, {"mode": "collective", "collective_mode": "local_sgd"}, UsageError, "two trainers"),
    ],
)  # fmt: skip
def test_bad_calls(
    args: tuple[Any, ...], named: dict[str, Any], fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        parsed(*args, config=config(**fields), **named)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("slice_var", True, UnknownFieldError, "has no field 'slice_var'; did you mean 'slice_var_up'?"),
        ("min_block_size", 8191, UsageError, "min_block_size must be >= 8192, got 8191: smaller blocks cost more"),
        ("min_block_size", "1", UsageTypeError, "min_block_size must be an int, got '1'"),
        ("sync_mode", None, UsageTypeError, "sync_mode must be True or False, got None"),
        ("mode", "mpi", UsageError, "mode must be one of 'pserver', 'nccl2', 'collective', got 'mpi'"),
        ("collective_mode", "ring", UsageError, "collective_mode must be one of None, 'grad_allreduce'"),
        ("split_method", "RoundRobin", UsageTypeError, "split_method must be the class of a dispatcher"),
        ("geo_sgd_need_push_nums", 0, UsageError, "geo_sgd_need_push_nums must be >= 1, got 0"),
        ("runtime_split_send_recv", True, UsageError, "needs sync_mode False; set sync_mode first"),
        ("enable_dc_asgd", True, NotSupportedError, "enable_dc_asgd must be False, got True: servers would keep"),
        ("nccl_comm_num", 0, UsageError, "nccl_comm_num must be >= 1, got 0: it is the number of rings, a hint"),
        ("use_hierarchical_allreduce", True, NotSupportedError, "use_hierarchical_allreduce must be False"),
        ("hierarchical_allreduce_inter_nranks", 8, NotSupportedError, "inter_nranks must be 0, got 8"),
    ],
)
def test_bad_configs(name: str, value: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        setattr(DistributeTranspilerConfig(), name, value)


def test_sync_mode_and_split_at_run_time_exclude_each_other() -> None:
    made = config(sync_mode=False, runtime_split_send_recv=True)
    with pytest.raises(UsageError, match="sync_mode cannot be True while runtime_split_send_recv is"):
        made.sync_mode = True
    assert repr(made) == "DistributeTranspilerConfig(runtime_split_send_recv=True, sync_mode=False)"
