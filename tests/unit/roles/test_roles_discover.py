"""fleet.init() without a role maker: which source speaks, what is nested, and who contradicts whom."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fleet.errors import RoleError, VariableError
from fleet.net import Endpoint
from fleet.roles import Identity, Rendezvous, Role, discover

WORKERS = "10.0.0.1:6170,10.0.0.1:6171"
CLOUD = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINER_ENDPOINTS": WORKERS, "PADDLE_TRAINERS_NUM": "2"}
MASTER = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
TORCH = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", **MASTER}
SERVERS = {"PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:7000,10.0.0.1:7001", "PADDLE_TRAINERS_NUM": "2"}
SERVER = {**SERVERS, "TRAINING_ROLE": "PSERVER", "POD_IP": "10.0.0.1", "PADDLE_PORT": "7001"}
SLURM = {
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NODELIST": "gpu7",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURM_JOB_ID": "10",
    "SLURM_STEP_ID": "3",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
FLEETRUN = {"FLEET_JOB_ID": "job-1"}
ELASTIC = {"TORCHELASTIC_RUN_ID": "none"}


def found(environ: Mapping[str, str], is_collective: bool = False) -> Identity:
    return discover(is_collective, environ).identity


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"MASTER_ADDR": "10.0.0.1"},
        MASTER,
        {"LOCAL_RANK": "3"},
        {"OMP_NUM_THREADS": "4"},
        {"POD_IP": "10.0.0.1", "PADDLE_PORT": "6170"},
        {"SLURM_PROCID": "0", "SLURM_JOB_ID": "5"},
        {"NODE_RANK": "1"},
    ],
)
def test_stray_variables_leave_a_single_worker(environ: dict[str, str]) -> None:
    for is_collective in (True, False):
        who = found(environ, is_collective)
        assert (who.role, who.index, who.num_workers, who.rendezvous) == (Role.WORKER, 0, 1, None)


@pytest.mark.parametrize("is_collective", [True, False])
@pytest.mark.parametrize(
    ("environ", "source", "where"),
    [
        (CLOUD, "PaddleCloud", "10.0.0.1:6170"),
        (TORCH, "torchrun", "10.0.0.1:29500"),
        (SLURM, "Slurm", "gpu7:20973"),
        ({**OPEN_MPI, **MASTER}, "Open MPI", "10.0.0.1:29500"),
        ({**CLOUD, **TORCH}, "PaddleCloud", "10.0.0.1:6170"),
        ({**CLOUD, **TORCH, **FLEETRUN}, "PaddleCloud", "10.0.0.1:6170"),
        ({**TORCH, **SLURM}, "torchrun", "10.0.0.1:29500"),
        ({**SLURM, **CLOUD}, "PaddleCloud", "10.0.0.1:6170"),
        ({**SLURM, "PMI_RANK": "1", "PMI_SIZE": "2"}, "Slurm", "gpu7:20973"),
        ({**SLURM, "WORLD_SIZE": "2"}, "Slurm", "gpu7:20973"),
    ],
)
def test_who_is_believed(environ: dict[str, str], source: str, where: str, is_collective: bool) -> None:
    who = found(environ, is_collective)
    assert who.source.startswith(source)
    assert (who.role, who.index, who.num_workers) == (Role.WORKER, 1, 2)
    assert who.rendezvous == Rendezvous(Endpoint.parse(where))


def test_a_server_of_a_job() -> None:
    who = found({**SERVER, **FLEETRUN})
    assert (who.role, who.index, who.num_workers, who.num_servers) == (Role.SERVER, 1, 2, 2)


def test_a_worker_of_a_job_with_servers() -> None:
    environ = {**SERVERS, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "1", **TORCH, **FLEETRUN}
    who = found(environ)
    assert (who.role, who.index, who.num_workers, who.num_servers) == (Role.WORKER, 1, 2, 2)


# What a launcher inherited from the launcher around it.
OUTER_SLURM = {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}
OUTER_MPI = {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_SIZE": "7"}


@pytest.mark.parametrize("outer", [OUTER_SLURM, OUTER_MPI, OUTER_SLURM | OUTER_MPI], ids=["srun", "mpirun", "both"])
@pytest.mark.parametrize(
    "inner",
    [{**CLOUD, **TORCH, **FLEETRUN}, {**CLOUD, **FLEETRUN}, {**TORCH, **ELASTIC}],
    ids=["fleetrun", "fleetrun-paddle-alone", "torchrun"],
)
def test_nesting_is_no_disagreement(inner: dict[str, str], outer: dict[str, str]) -> None:
    assert (found({**outer, **inner}).index, found({**outer, **inner}).num_workers) == (1, 2)


def test_a_server_of_fleetrun_does_not_hear_a_rank_from_outside() -> None:
    assert found({**TORCH, **SERVER, **FLEETRUN, **OUTER_SLURM}).role is Role.SERVER


def test_mpirun_inside_slurm_is_not_its_own_daemon() -> None:
    daemon = {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    assert found({**daemon, **OPEN_MPI, **MASTER}).source.startswith("Open MPI")


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({**CLOUD, **TORCH, "RANK": "0"}, ["PADDLE_TRAINER_ID", "worker 1", "RANK", "worker 0", "unset"]),
        (
            {**CLOUD, **TORCH, "RANK": "0", **FLEETRUN},
            ["PADDLE_TRAINER_ID", "worker 1", "RANK", "worker 0", "unset"],
        ),
        (
            {**CLOUD, **TORCH, "WORLD_SIZE": "4"},
            ["PADDLE_TRAINER_ENDPOINTS", "2 workers", "WORLD_SIZE", "4 workers"],
        ),
        ({**TORCH, **SLURM, "SLURM_PROCID": "0"}, ["RANK", "SLURM_PROCID", "worker 0", "worker 1"]),
        ({**TORCH, **OUTER_MPI}, ["RANK", "OMPI_COMM_WORLD_RANK", "worker 6"]),
        (
            {**SLURM, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
            ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "1 workers"],
        ),
        ({**SERVER, **TORCH}, ["TRAINING_ROLE", "server 1", "RANK", "worker 1"]),
        ({**TORCH, "TRAINING_ROLE": "TRAINER"}, ["PaddleCloud", "RANK", "2 workers", "1 workers"]),
    ],
)
def test_disagreement_names_both(environ: dict[str, str], names: list[str]) -> None:
    with pytest.raises(RoleError) as caught:
        found(environ)
    assert [name for name in names if name not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"WORLD_SIZE": "4"}, "RANK"),
        ({"RANK": "0"}, "WORLD_SIZE"),
        ({"RANK": "0", **SLURM}, "WORLD_SIZE"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, "SLURM_PROCID"),
        ({"PMI_RANK": "0"}, "PMI_SIZE"),
        ({"TRAINING_ROLE": "PSERVER"}, "PADDLE_PSERVERS_IP_PORT_LIST"),
        ({"PADDLE_TRAINERS_NUM": "2"}, "PADDLE_PSERVERS_IP_PORT_LIST"),
    ],
)
def test_partly_set(environ: dict[str, str], missing: str) -> None:
    with pytest.raises(VariableError, match="is not set") as caught:
        found(environ)
    assert caught.value.name == missing


def test_a_wrong_world_size_beside_slurm_names_both() -> None:
    with pytest.raises(RoleError) as caught:
        found({**SLURM, "WORLD_SIZE": "8"})
    assert str(caught.value) == (
        "WORLD_SIZE=8, but Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS) says 2 workers; unset WORLD_SIZE"
    )


def test_a_server_cannot_be_collective() -> None:
    with pytest.raises(RoleError, match="leave out is_collective=True"):
        found({**SERVER, **FLEETRUN}, is_collective=True)
