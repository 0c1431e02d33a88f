"""The contract of a role, and what importing the package must not do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import fleet.roles
from fleet.errors import RoleError
from fleet.net import Endpoint, is_loopback, local_addresses, outward_address
from fleet.roles import (
    Identity,
    MPISymetricRoleMaker,
    PaddleCloudRoleMaker,
    Role,
    RoleMaker,
    UserDefinedCollectiveRoleMaker,
    UserDefinedRoleMaker,
    discover,
)
from fleet.roles.seat import Seat, seat_among


def test_public_names_are_sorted_and_exist() -> None:
    assert fleet.roles.__all__ == sorted(fleet.roles.__all__)
    assert all(hasattr(fleet.roles, name) for name in fleet.roles.__all__)


def test_import_pulls_in_neither_torch_nor_mpi() -> None:
    code = "import sys, json, fleet.roles; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {"torch", "mpi4py", "numpy"}.isdisjoint(json.loads(output))


def test_identity_is_read_from_the_process_environment_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:1,10.0.0.1:2")
    assert PaddleCloudRoleMaker(is_collective=True).worker_index() == 1


def test_generate_role_twice_changes_nothing() -> None:
    maker = PaddleCloudRoleMaker(environ={})
    assert repr(maker) == "PaddleCloudRoleMaker()"
    maker.generate_role()
    first = maker.identity
    maker.generate_role()
    assert maker.identity is first
    maker.close()
    maker.close()
    assert "worker" in repr(maker)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_workers": 0}, "must be >= 1, got 0"),
        ({"num_workers": 2, "index": 2}, "worker index 2 does not fit a job of 2 workers; give it one from 0 to 1"),
        ({"num_workers": 2, "role": Role.SERVER}, "server index 0 does not fit a job of 0 servers"),
        ({"num_workers": 2, "worker_endpoints": (Endpoint("a", 1),)}, "1 worker endpoints for 2 workers"),
    ],
)
def test_identity_refuses_nonsense(fields: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"role": Role.WORKER, "index": 0, "source": "test", **fields}
    with pytest.raises(RoleError, match=message):
        Identity(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("maker", "is_collective"),
    [
        (PaddleCloudRoleMaker(environ={}), False),
        (PaddleCloudRoleMaker(is_collective=True, environ={}), True),
        (UserDefinedRoleMaker(worker_num=1, server_endpoints=["a:1"]), False),
        (UserDefinedRoleMaker(is_collective=True, worker_num=1), True),
        (UserDefinedCollectiveRoleMaker(0, ["a:1"]), True),
        (MPISymetricRoleMaker(), False),
        (discover(environ={}), False),
        (discover(True, environ={}), True),
    ],
)
def test_a_role_maker_tells_what_it_was_made_for(maker: RoleMaker, is_collective: bool) -> None:
    assert maker.is_collective is is_collective


def test_a_role_maker_of_ones_own_need_not_call_super() -> None:
    class Mine(RoleMaker):
        def __init__(self, index: int) -> None:
            self.index = index

        def _generate(self) -> Identity:
            return Identity(role=Role.WORKER, index=self.index, num_workers=2, source="mine")

    maker = Mine(1)
    assert repr(maker) == "Mine()"
    assert maker.worker_index() == 1
    assert Mine(0).worker_index() == 0


def test_questions_have_answers() -> None:
    maker = discover(environ={})
    assert maker.is_worker()
    assert maker.is_first_worker()
    assert not maker.is_server()
    assert (maker.worker_index(), maker.server_index(), maker.worker_num(), maker.server_num()) == (
        0,
        0,
        1,
        0,
    )
    assert maker.get_trainer_endpoints() == []
    assert maker.get_pserver_endpoints() == []


def test_place_among_interleaved_machines() -> None:
    hosts = ["a", "b", "a", "b", "c"]
    assert [seat_among(hosts, index) for index in range(5)] == [
        Seat(0, 2, 0, 3),
        Seat(0, 2, 1, 3),
        Seat(1, 2, 0, 3),
        Seat(1, 2, 1, 3),
        Seat(0, 1, 2, 3),
    ]


@pytest.mark.parametrize(
    ("place", "message"), [(Seat(1, 1), "local rank 1"), (Seat(0, 1, 2, 2), "machine 2 .* 2 machine")]
)
def test_place_that_does_not_exist(place: Seat, message: str) -> None:
    with pytest.raises(RoleError, match=message):
        place.given_to(discover(environ={}).identity)


def test_outward_address_is_ours() -> None:
    if all(is_loopback(address) for address in local_addresses()):
        pytest.skip("this machine has no network besides loopback")
    assert outward_address() in local_addresses()
