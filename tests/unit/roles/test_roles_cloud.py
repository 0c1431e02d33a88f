"""PaddleCloudRoleMaker: workers in both modes, their number, roles, and what stays a single process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleet.errors import EndpointError, NotSupportedError, RoleError, UsageTypeError, VariableError
from fleet.net import Endpoint
from fleet.roles import Identity, PaddleCloudRoleMaker, Rendezvous, Role

TWO = "10.0.0.1:6170,10.0.0.2:6170"
FOUR = "10.0.0.1:6170,10.0.0.1:6171,10.0.0.2:6170,10.0.0.2:6171"
PS = {"PADDLE_PSERVERS_IP_PORT_LIST": TWO, "PADDLE_TRAINERS_NUM": "3", "TRAINING_ROLE": "TRAINER"}
WORKER = {**PS, "PADDLE_TRAINER_ID": "2"}


def collective(environ: Mapping[str, str]) -> Identity:
    return PaddleCloudRoleMaker(is_collective=True, environ=environ).identity


def servers_mode(environ: Mapping[str, str]) -> Identity:
    return PaddleCloudRoleMaker(environ=environ).identity


def test_collective() -> None:
    who = collective(
        {
            "PADDLE_TRAINER_ID": "3",
            "PADDLE_TRAINER_ENDPOINTS": FOUR,
            "PADDLE_CURRENT_ENDPOINT": "10.0.0.2:6171",
            "PADDLE_TRAINERS_NUM": "4",
            "PADDLE_TRAINING_ROLE": "trainer",
        }
    )
    assert (who.role, who.index, who.num_workers, who.num_servers) == (Role.WORKER, 3, 4, 0)
    assert who.rendezvous == Rendezvous(Endpoint("10.0.0.1", 6170))
    assert (who.local_rank, who.num_local_workers, who.node_index, who.num_nodes) == (1, 2, 1, 2)


def test_collective_index_is_0_by_default() -> None:
    assert collective({"PADDLE_TRAINER_ENDPOINTS": TWO}).index == 0


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"PADDLE_TRAINER_ID": "0"},
        {"PADDLE_TRAINERS_NUM": "1"},
        {"POD_IP": "10.0.0.1", "PADDLE_PORT": "6170"},
        {"TRAINING_ROLE": "TRAINER"},
        {"PADDLE_TRAINER_ENDPOINTS": "  "},
    ],
)
@pytest.mark.parametrize("is_collective", [True, False])
def test_single_worker(environ: dict[str, str], is_collective: bool) -> None:
    who = PaddleCloudRoleMaker(is_collective, environ=environ).identity
    assert (who.role, who.index, who.num_workers, who.num_servers) == (Role.WORKER, 0, 1, 0)
    assert who.rendezvous is None


@pytest.mark.parametrize(
    ("extra", "local_rank"),
    [
        ({}, 1),
        ({"LOCAL_RANK": "0"}, 0),
        ({"PADDLE_RANK_IN_NODE": "1", "LOCAL_RANK": "0"}, 1),
    ],
)
def test_local_rank(extra: dict[str, str], local_rank: int) -> None:
    who = collective({"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINER_ENDPOINTS": FOUR, **extra})
    assert who.local_rank == local_rank


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"PADDLE_TRAINING_ROLE": "PSERVER"}, ["PSERVER", "is_collective"]),
        ({"TRAINING_ROLE": "PSERVER", "PADDLE_TRAINER_ENDPOINTS": TWO}, ["PSERVER", "is_collective"]),
        ({"TRAINING_ROLE": "BOSS"}, ["TRAINING_ROLE", "TRAINER", "BOSS"]),
        ({"PADDLE_TRAINERS_NUM": "2"}, ["PADDLE_TRAINER_ENDPOINTS", "2 workers"]),
        ({"PADDLE_TRAINERS_NUM": "0"}, ["PADDLE_TRAINER_ENDPOINTS", "0 workers"]),
        ({"PADDLE_TRAINER_ID": "1"}, ["PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINER_ID=1"]),
        ({"PADDLE_TRAINER_ID": "-1"}, ["PADDLE_TRAINER_ID", "'-1'"]),
        (
            {"PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ENDPOINTS": TWO},
            ["PADDLE_TRAINERS_NUM=3", "PADDLE_TRAINER_ENDPOINTS lists 2"],
        ),
        (
            {"PADDLE_TRAINER_ENDPOINTS": TWO, "PADDLE_CURRENT_ENDPOINT": "10.0.0.2:6170"},
            ["PADDLE_CURRENT_ENDPOINT=10.0.0.2:6170", "PADDLE_TRAINER_ID=0", "worker 1"],
        ),
        (
            {"PADDLE_TRAINER_ENDPOINTS": TWO, "PADDLE_CURRENT_ENDPOINT": "10.0.0.9:6170"},
            ["PADDLE_CURRENT_ENDPOINT=10.0.0.9:6170", "none of them"],
        ),
        (
            {"PADDLE_TRAINER_ENDPOINTS": TWO, "PADDLE_TRAINER_ID": "2"},
            ["PADDLE_TRAINER_ID", "index 2", "2 workers"],
        ),
        ({"PADDLE_TRAINER_ENDPOINTS": TWO, "PADDLE_RANK_IN_NODE": "1"}, ["local rank 1", "1 worker"]),
    ],
)
def test_collective_errors(environ: dict[str, str], names: list[str]) -> None:
    with pytest.raises(RoleError) as caught:
        collective(environ)
    assert [name for name in names if name not in str(caught.value)] == []


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:6170,", "10.0.0.1:6170,10.0.0.1:6170"])
def test_malformed_endpoints_name_the_variable(text: str) -> None:
    with pytest.raises(EndpointError, match="PADDLE_TRAINER_ENDPOINTS"):
        collective({"PADDLE_TRAINER_ENDPOINTS": text})


def test_worker_of_a_job_with_servers() -> None:
    who = servers_mode(WORKER)
    assert (who.role, who.index, who.num_workers, who.num_servers) == (Role.WORKER, 2, 3, 2)
    assert who.server_endpoints == (Endpoint("10.0.0.1", 6170), Endpoint("10.0.0.2", 6170))
    assert who.rendezvous is None


def test_the_guides_own_worker() -> None:
    """The trainer line of the Fluid guide, misspelt variable included."""
    who = servers_mode(
        {
            "PADDLE_PSERVER_PORT": "6174",
            "PADDLE_PSERVER_IPS": "192.168.1.3",
            "PADDLE_TRAINERS": "2",
            "PADDLE_CURRENT_IPP": "192.168.1.3",
            "PADDLE_TRAINER_ID": "1",
            "PADDLE_TRAINING_ROLE": "TRAINER",
        }
    )
    assert (who.role, who.index, who.num_workers) == (Role.WORKER, 1, 2)
    assert who.server_endpoints == (Endpoint("192.168.1.3", 6174),)


@pytest.mark.parametrize("name", ["PADDLE_TRAINERS_NUM", "PADDLE_NUM_TRAINERS", "PADDLE_TRAINERS"])
def test_every_spelling_of_the_count(name: str) -> None:
    environ = {key: value for key, value in WORKER.items() if key != "PADDLE_TRAINERS_NUM"}
    assert servers_mode({**environ, name: "5"}).num_workers == 5


def test_count_from_the_workers_endpoints() -> None:
    environ = {key: value for key, value in WORKER.items() if key != "PADDLE_TRAINERS_NUM"}
    assert servers_mode({**environ, "PADDLE_TRAINER_ENDPOINTS": FOUR}).num_workers == 4


@pytest.mark.parametrize(
    ("extra", "where"),
    [
        (
            {"PADDLE_TRAINER_ENDPOINTS": "h:1,h:2,h:3", "MASTER_ADDR": "m", "MASTER_PORT": "9"},
            Endpoint("h", 1),
        ),
        ({"PADDLE_GLOO_HTTP_ENDPOINT": "g:7", "MASTER_ADDR": "m", "MASTER_PORT": "9"}, Endpoint("g", 7)),
        ({"MASTER_ADDR": "m", "MASTER_PORT": "9"}, Endpoint("m", 9)),
        ({"MASTER_ADDR": "::1", "MASTER_PORT": "9"}, Endpoint("::1", 9)),
        ({"MASTER_ADDR": "m"}, None),
        ({"MASTER_PORT": "9"}, None),
    ],
)
def test_where_the_workers_of_a_server_job_meet(extra: dict[str, str], where: Endpoint | None) -> None:
    assert servers_mode({**WORKER, **extra}).rendezvous == (where and Rendezvous(where))


def test_local_rank_of_workers_that_do_not_listen() -> None:
    who = servers_mode({**WORKER, "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "3"})
    assert (who.local_rank, who.num_local_workers) == (1, 3)
    assert servers_mode({**WORKER, "PADDLE_RANK_IN_NODE": "1"}).num_local_workers == 2


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"TRAINING_ROLE": "PSERVER"}, ["PADDLE_PSERVERS_IP_PORT_LIST", "PSERVER"]),
        ({"PADDLE_TRAINERS_NUM": "2"}, ["PADDLE_PSERVERS_IP_PORT_LIST", "2 workers", "is_collective"]),
        ({"PADDLE_TRAINERS_NUM": "0"}, ["PADDLE_PSERVERS_IP_PORT_LIST", "0 workers"]),
        ({"PADDLE_TRAINER_ENDPOINTS": TWO}, ["PADDLE_PSERVERS_IP_PORT_LIST", "2 workers", "is_collective"]),
        ({"PADDLE_TRAINER_ID": "1"}, ["PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ID=1"]),
        (PS, ["PADDLE_TRAINER_ID", "not set"]),
        ({**WORKER, "TRAINING_ROLE": ""}, ["TRAINING_ROLE", "TRAINER", "PSERVER"]),
        ({**WORKER, "PADDLE_TRAINERS_NUM": ""}, ["PADDLE_TRAINERS_NUM", "not set"]),
        ({**WORKER, "PADDLE_TRAINERS_NUM": "0"}, ["PADDLE_TRAINERS_NUM", "got 0"]),
        ({**WORKER, "PADDLE_TRAINER_ID": "3"}, ["PADDLE_TRAINER_ID", "index 3", "3 workers"]),
        ({**WORKER, "PADDLE_NUM_TRAINERS": "4"}, ["PADDLE_TRAINERS_NUM=3", "PADDLE_NUM_TRAINERS=4"]),
        ({**WORKER, "PADDLE_TRAINERS": "4"}, ["PADDLE_TRAINERS_NUM=3", "PADDLE_TRAINERS=4"]),
        (
            {**WORKER, "PADDLE_TRAINING_ROLE": "PSERVER"},
            ["TRAINING_ROLE=TRAINER", "PADDLE_TRAINING_ROLE=PSERVER"],
        ),
        ({**WORKER, "PADDLE_TRAINER_ENDPOINTS": TWO}, ["2 worker endpoints for 3 workers"]),
    ],
)
def test_server_mode_errors(environ: dict[str, str], names: list[str]) -> None:
    with pytest.raises(RoleError) as caught:
        servers_mode(environ)
    assert [name for name in names if name not in str(caught.value)] == []


@pytest.mark.parametrize("is_collective", [True, False])
def test_heter_trainer_is_not_supported(is_collective: bool) -> None:
    with pytest.raises(NotSupportedError, match="HETER_TRAINER"):
        _ = PaddleCloudRoleMaker(is_collective, environ={**WORKER, "TRAINING_ROLE": "HETER_TRAINER"}).identity


@pytest.mark.parametrize("is_collective", [True, False])
@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "9"}, "torchrun"),
        (
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
            | {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "Open MPI",
        ),
    ],
)
def test_another_launcher_does_not_become_many_single_workers(
    environ: dict[str, str], name: str, is_collective: bool
) -> None:
    with pytest.raises(RoleError, match=rf"{name} .*2 workers; call fleet.init\(\)"):
        _ = PaddleCloudRoleMaker(is_collective, environ=environ).identity


def test_variable_errors_carry_the_name() -> None:
    with pytest.raises(VariableError) as caught:
        servers_mode(PS)
    assert caught.value.name == "PADDLE_TRAINER_ID"


def test_a_misspelt_role_is_offered_only_what_works() -> None:
    with pytest.raises(VariableError, match=r"TRAINING_ROLE must be one of TRAINER, PSERVER, got 'WORKER'"):
        servers_mode({**WORKER, "TRAINING_ROLE": "WORKER"})


@pytest.mark.parametrize("init_gloo", [True, False])
def test_the_arguments_of_the_original(init_gloo: bool) -> None:
    assert PaddleCloudRoleMaker(is_collective=True, init_gloo=init_gloo, environ={}).is_collective
    assert PaddleCloudRoleMaker(False, init_gloo, environ={}).worker_num() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"is_colective": True}, r"PaddleCloudRoleMaker has no argument is_colective; did you mean is_collective\?"),
        ({"path": "/tmp"}, "path; it takes is_collective, init_gloo, environ"),
        ({"is_collective": 1}, "is_collective must be True or False, got 1"),
        ({"init_gloo": {}}, "init_gloo must be True or False"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageTypeError, match=message):
        PaddleCloudRoleMaker(**arguments)
