"""UserDefinedRoleMaker in both signatures, and its checks."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import FleetError, UnknownFieldError
from fleet.net import Endpoint
from fleet.roles import Rendezvous, Role, UserDefinedCollectiveRoleMaker, UserDefinedRoleMaker

SERVERS = ["127.0.0.1:36011", "127.0.0.1:36012"]
WORKERS = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"]


def test_the_documents_own_call() -> None:
    role = UserDefinedRoleMaker(current_id=0, role=Role.SERVER, worker_num=2, server_endpoints=SERVERS)
    assert role.is_server()
    assert (role.server_index(), role.worker_num(), role.server_num()) == (0, 2, 2)
    assert role.get_pserver_endpoints() == SERVERS


def test_first_signature_by_position() -> None:
    role = UserDefinedRoleMaker(1, Role.WORKER, 2, SERVERS)
    assert role.is_worker()
    assert (role.worker_index(), role.worker_num()) == (1, 2)
    assert role.identity.rendezvous is None


@pytest.mark.parametrize("init_gloo", [True, False])
def test_second_signature(init_gloo: bool) -> None:
    role = UserDefinedRoleMaker(
        False, init_gloo, current_id=2, role=Role.WORKER, server_endpoints=SERVERS, worker_endpoints=WORKERS
    )
    assert (role.worker_index(), role.worker_num()) == (2, 3)
    assert role.identity.rendezvous == Rendezvous(Endpoint("10.0.0.1", 1))
    assert (role.identity.node_index, role.identity.num_nodes) == (1, 2)


def test_second_signature_collective() -> None:
    role = UserDefinedRoleMaker(is_collective=True, current_id=1, worker_endpoints=WORKERS)
    assert (role.worker_index(), role.worker_num(), role.server_num()) == (1, 3, 0)
    assert role.identity.local_rank == 1
    assert UserDefinedRoleMaker(True, worker_num=1).worker_num() == 1


def test_collective() -> None:
    role = UserDefinedCollectiveRoleMaker(1, WORKERS)
    assert role.is_worker()
    assert role.get_trainer_endpoints() == WORKERS
    assert (role.worker_index(), role.worker_num()) == (1, 3)


def changed(**change: Any) -> dict[str, Any]:
    return {"current_id": 0, "role": Role.WORKER, "worker_num": 2, "server_endpoints": SERVERS, **change}


@pytest.mark.parametrize(
    ("args", "kwargs", "name"),
    [
        ((), changed(server_endpoints="127.0.0.1:1"), "server_endpoints"),
        ((), changed(server_endpoints=None), "server_endpoints"),
        ((), changed(server_endpoints=[6170]), "server_endpoints"),
        ((), changed(current_id="0"), "current_id"),
        ((), changed(current_id=True), "current_id"),
        ((), changed(worker_num=2.0), "worker_num"),
        ((), changed(role=1), "Role.WORKER"),
        ((), changed(worker_endpoints=""), "worker_endpoints"),
        ((), changed(is_collective=1), "is_collective"),
        ((), changed(init_gloo=None), "init_gloo"),
        ((0, Role.WORKER, 2, SERVERS, WORKERS), {}, "current_id, role, worker_num, server_endpoints"),
        ((True, True, 0), {}, "is_collective, init_gloo"),
        ((0,), changed(), "current_id twice"),
    ],
)
def test_wrong_types(args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> None:
    with pytest.raises(TypeError, match=name) as caught:
        UserDefinedRoleMaker(*args, **kwargs)
    assert isinstance(caught.value, FleetError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        (changed(server_endpoints=[]), "server_endpoints must not be empty"),
        (changed(server_endpoints=[SERVERS[0], SERVERS[0]]), "server_endpoints names 127.0.0.1:36011 twice"),
        (changed(server_endpoints=["127.0.0.1"]), "server_endpoints '127.0.0.1' has no port"),
        (
            changed(worker_endpoints=["127.0.0.1:36012", "10.0.0.1:1"]),
            "server_endpoints with worker_endpoints names 127.0.0.1:36012 twice",
        ),
        (changed(current_id=-1), "current_id must be >= 0, got -1"),
        (changed(current_id=2), "worker index 2"),
        (
            changed(current_id=2, role=Role.SERVER),
            "current_id must be below the number of servers, got 2 of 2",
        ),
        (changed(worker_num=0), "worker_num must be > 0"),
        (changed(worker_num=-2), "worker_num"),
        (changed(worker_endpoints=WORKERS), "3 worker endpoints for 2 workers"),
        (changed(is_collective=True), "server_endpoints with is_collective=True"),
        ({"is_collective": True, "role": Role.SERVER, "worker_num": 1}, "Role.SERVER with is_collective"),
        ({"is_collective": True, "worker_num": 2}, "worker_endpoints is not given"),
        ({"is_collective": True}, "worker_num must be > 0"),
    ],
)
def test_wrong_values(kwargs: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        UserDefinedRoleMaker(**kwargs)
    assert isinstance(caught.value, FleetError)


def test_a_tuple_is_as_good_as_a_list() -> None:
    role = UserDefinedRoleMaker(current_id=1, server_endpoints=tuple(SERVERS), worker_endpoints=tuple(WORKERS))
    assert role.get_pserver_endpoints() == SERVERS
    assert role.get_trainer_endpoints() == WORKERS
    assert UserDefinedRoleMaker(0, Role.WORKER, 2, tuple(SERVERS)).worker_num() == 2
    assert UserDefinedRoleMaker(True, worker_num=1, worker_endpoints=()).worker_num() == 1
    assert UserDefinedCollectiveRoleMaker(1, tuple(WORKERS)).worker_num() == 3


def test_no_arguments_at_all_hint_at_both_ways_out() -> None:
    with pytest.raises(TypeError, match=r"server_endpoints is not given; .*is_collective=True"):
        UserDefinedRoleMaker()


def test_unknown_argument_names_the_nearest() -> None:
    unknown: Any = changed(server_endpoint=SERVERS)
    with pytest.raises(UnknownFieldError, match=r"server_endpoint; did you mean server_endpoints\?"):
        UserDefinedRoleMaker(**unknown)
    unknown = changed(zzz=1)
    with pytest.raises(UnknownFieldError, match=r"zzz; it takes is_collective"):
        UserDefinedRoleMaker(**unknown)


@pytest.mark.parametrize(
    ("current_id", "worker_endpoints", "error"),
    [
        ("0", WORKERS, TypeError),
        (0, None, TypeError),
        (0, set(WORKERS), TypeError),
        (0, [], ValueError),
        (0, ["a:1", "a:1"], ValueError),
        (-1, WORKERS, ValueError),
        (3, WORKERS, ValueError),
    ],
)
def test_collective_errors(current_id: Any, worker_endpoints: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        UserDefinedCollectiveRoleMaker(current_id, worker_endpoints)
