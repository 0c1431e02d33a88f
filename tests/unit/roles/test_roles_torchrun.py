"""torchrun's variables."""

from __future__ import annotations

import pytest

from fleet.errors import EndpointError, RoleError, VariableError
from fleet.net import Endpoint
from fleet.roles import Rendezvous, Role
from fleet.roles.torchrun import read

ENV = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
FULL = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "node-1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}


def test_everything_torchrun_sets() -> None:
    who = read(FULL)
    assert who is not None
    assert (who.role, who.index, who.num_workers) == (Role.WORKER, 5, 8)
    assert (who.local_rank, who.num_local_workers, who.node_index, who.num_nodes) == (1, 4, 1, 2)
    assert who.rendezvous == Rendezvous(Endpoint("node-1", 29500), is_hosted=True)


@pytest.mark.parametrize(("text", "is_hosted"), [("False", False), ("", False), ("TRUE", True)])
def test_who_hosts_the_meeting(text: str, is_hosted: bool) -> None:
    who = read({**FULL, "TORCHELASTIC_USE_AGENT_STORE": text})
    assert who is not None
    assert who.rendezvous is not None
    assert who.rendezvous.is_hosted is is_hosted


def test_bare_env_language_means_one_worker_on_each_machine() -> None:
    who = read(ENV)
    assert who is not None
    assert (who.local_rank, who.num_local_workers, who.node_index, who.num_nodes) == (0, 1, 1, 2)


def test_machines_are_counted_where_torchrun_does_not_say() -> None:
    who = read({**FULL, "GROUP_RANK": "", "GROUP_WORLD_SIZE": ""})
    assert who is not None
    assert (who.node_index, who.num_nodes) == (1, 2)


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({**ENV, "LOCAL_RANK": "1"}, (1, 2, 0, 1)),
        ({**FULL, "LOCAL_WORLD_SIZE": ""}, (1, 4, 1, 2)),
        ({**FULL, "LOCAL_WORLD_SIZE": "", "LOCAL_RANK": "5"}, (5, 6, 1, 2)),
        ({**FULL, "LOCAL_WORLD_SIZE": "", "GROUP_RANK": ""}, (1, 4, 1, 2)),
        ({**FULL, "LOCAL_WORLD_SIZE": "", "GROUP_WORLD_SIZE": ""}, (1, 4, 1, 2)),
        ({**FULL, "LOCAL_WORLD_SIZE": "", "GROUP_RANK": "", "GROUP_WORLD_SIZE": ""}, (1, 8, 0, 1)),
    ],
)
def test_the_number_on_a_machine_may_be_unknown(environ: dict[str, str], place: tuple[int, ...]) -> None:
    who = read(environ)
    assert who is not None
    assert (who.local_rank, who.num_local_workers, who.node_index, who.num_nodes) == place


def test_a_single_worker_needs_no_meeting() -> None:
    who = read({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"})
    assert who is not None
    assert who.rendezvous is None


@pytest.mark.parametrize(
    "environ",
    [{}, {"MASTER_ADDR": "a", "MASTER_PORT": "1"}, {"LOCAL_RANK": "3"}, {"GROUP_RANK": "1"}, {"RANK": " "}],
)
def test_variables_that_prove_nothing(environ: dict[str, str]) -> None:
    assert read(environ) is None


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"WORLD_SIZE": "4"}, "RANK"),
        ({"RANK": "0"}, "WORLD_SIZE"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR"),
        ({**ENV, "MASTER_ADDR": ""}, "MASTER_ADDR"),
        ({**ENV, "MASTER_PORT": ""}, "MASTER_PORT"),
        ({**ENV, "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK"),
    ],
)
def test_partly_set(environ: dict[str, str], missing: str) -> None:
    with pytest.raises(VariableError, match="is not set") as caught:
        read(environ)
    assert caught.value.name == missing


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({**ENV, "RANK": "2"}, r"torchrun \(RANK, WORLD_SIZE\): worker index 2"),
        ({**ENV, "RANK": "one"}, "RANK must be a whole number"),
        ({**ENV, "WORLD_SIZE": "0"}, "must be >= 1"),
        ({**FULL, "LOCAL_RANK": "4"}, "local rank 4"),
        ({**FULL, "GROUP_RANK": "2"}, "machine 2"),
    ],
)
def test_nonsense(environ: dict[str, str], message: str) -> None:
    with pytest.raises(RoleError, match=message):
        read(environ)


def test_malformed_meeting_names_the_variables() -> None:
    with pytest.raises(EndpointError, match="MASTER_ADDR:MASTER_PORT"):
        read({**ENV, "MASTER_PORT": "0"})
