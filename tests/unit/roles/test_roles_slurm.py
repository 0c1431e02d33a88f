"""Slurm's variables."""

from __future__ import annotations

import pytest

from fleet.errors import EndpointError, RoleError, VariableError
from fleet.net import Endpoint
from fleet.roles import Rendezvous, Role
from fleet.roles.slurm import derived_port, read

TASK = {
    "SLURM_STEP_NUM_TASKS": "11",
    "SLURM_PROCID": "9",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_NODELIST": "gpu[07-09]",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    "SLURM_JOB_ID": "123456",
    "SLURM_STEP_ID": "0",
}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in TASK.items() if key != name}


def test_everything_srun_sets() -> None:
    who = read(TASK)
    assert who is not None
    assert (who.role, who.index, who.num_workers) == (Role.WORKER, 9, 11)
    assert (who.local_rank, who.num_local_workers, who.node_index, who.num_nodes) == (1, 3, 2, 3)
    assert who.rendezvous == Rendezvous(Endpoint("gpu07", derived_port(TASK)))


def test_machines_are_counted_without_their_number() -> None:
    who = read(without("SLURM_STEP_NUM_NODES"))
    assert who is not None
    assert who.num_nodes == 3


@pytest.mark.parametrize(
    ("extra", "where"),
    [
        ({"MASTER_ADDR": "head", "MASTER_PORT": "29500"}, Endpoint("head", 29500)),
        ({"MASTER_ADDR": "head"}, Endpoint("head", derived_port(TASK))),
        ({"MASTER_PORT": "29500"}, Endpoint("gpu07", 29500)),
    ],
)
def test_the_user_may_say_where_to_meet(extra: dict[str, str], where: Endpoint) -> None:
    who = read({**TASK, **extra})
    assert who is not None
    assert who.rendezvous == Rendezvous(where)


def test_ports_of_neighbouring_jobs_and_steps_differ() -> None:
    def ports(**change: int) -> int:
        return derived_port(TASK | {name: str(value) for name, value in change.items()})

    seen = {ports(SLURM_JOB_ID=job, SLURM_STEP_ID=step) for job in range(1000, 1050) for step in range(20)}
    assert len(seen) == 50 * 20
    assert all(20000 <= port <= 29999 for port in seen)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"},
    ],
    ids=["no-slurm", "sbatch-without-srun"],
)
def test_not_a_task(environ: dict[str, str]) -> None:
    assert read(environ) is None


def test_a_single_task_needs_nothing_else() -> None:
    who = read({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})
    assert who is not None
    assert (who.num_workers, who.rendezvous) == (1, None)


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_STEP_NODELIST",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
    ],
)
def test_partly_set(name: str) -> None:
    with pytest.raises(VariableError, match="is not set") as caught:
        read(without(name))
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"SLURM_STEP_NODELIST": "gpu[7-"}, ["SLURM_STEP_NODELIST", "gpu[7-", "MASTER_ADDR"]),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(y2)"}, ["SLURM_STEP_TASKS_PER_NODE", "4(y2)"]),
        (
            {"SLURM_STEP_TASKS_PER_NODE": "4(x2)"},
            ["SLURM_STEP_TASKS_PER_NODE=4(x2)", "8", "SLURM_STEP_NUM_TASKS=11"],
        ),
        ({"SLURM_NODEID": "3"}, ["SLURM_NODEID=3", "3 machines"]),
        ({"SLURM_STEP_NUM_NODES": "2"}, ["SLURM_STEP_NUM_NODES=2", "3 machines"]),
        ({"SLURM_LOCALID": "3"}, ["local rank 3", "3 worker"]),
        ({"SLURM_PROCID": "11"}, ["SLURM_PROCID", "index 11"]),
    ],
)
def test_nonsense(change: dict[str, str], names: list[str]) -> None:
    with pytest.raises(RoleError) as caught:
        read({**TASK, **change})
    assert [name for name in names if name not in str(caught.value)] == []


@pytest.mark.parametrize("change", [{"SLURM_PROCID": "0"}, {"SLURM_PROCID": "0", "MASTER_PORT": "29500"}])
def test_task_0_on_another_machine_than_the_first_asks_for_the_address(change: dict[str, str]) -> None:
    with pytest.raises(RoleError, match="SLURM_PROCID=0 runs on machine 2 .* set MASTER_ADDR"):
        read({**TASK, **change})
    who = read({**TASK, **change, "MASTER_ADDR": "gpu09"})
    assert who is not None
    assert (who.index, who.node_index) == (0, 2)


def test_malformed_meeting_names_the_variables() -> None:
    with pytest.raises(EndpointError, match="MASTER_ADDR:MASTER_PORT"):
        read({**TASK, "MASTER_ADDR": "not a host"})
