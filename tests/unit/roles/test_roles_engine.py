"""FLEET_ROLE: an engine says outright who a process is, and nobody else is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet import env
from fleet.errors import RoleError, VariableError
from fleet.jobfiles.job_secret import job_secret
from fleet.roles import Identity, PaddleCloudRoleMaker, Role, discover

SERVERS = {"FLEET_SERVERS": "n1:6170,n2:6170", "FLEET_WORKERS": "3"}
SERVER = {**SERVERS, "FLEET_ROLE": "server", "FLEET_INDEX": "1"}
WORKER = {**SERVERS, "FLEET_ROLE": "worker", "FLEET_INDEX": "2"}

# Of a heterogeneous job, `sbatch --nodes 2 ... hetjob ... --nodes 3`, as Slurm 22.05 sets them for each step's tasks.
SLURM_SERVER = {
    "SLURM_JOB_ID": "71",
    "SLURM_HET_SIZE": "2",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_GTIDS": "1",
    "SLURMD_NODENAME": "n2",
}
SLURM_WORKER = {
    **SLURM_SERVER,
    "SLURM_JOB_ID": "72",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_NODELIST": "n[3-5]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
    "SLURM_PROCID": "0",
    "SLURM_NODEID": "0",
    "SLURM_GTIDS": "0",
    "SLURMD_NODENAME": "n3",
}
AROUND = {
    "torchrun": {"RANK": "0", "WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"},
    "half of torchrun": {"WORLD_SIZE": "8"},
    "mpi": {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8"},
    "paddle": {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINERS_NUM": "8", "PADDLE_PSERVERS_IP_PORT_LIST": "n9:1"},
    "slurm, a server's step": SLURM_SERVER,
    "slurm, a worker's step": SLURM_WORKER,
}


def found(environ: dict[str, str], is_collective: bool = False) -> Identity:
    return discover(is_collective, environ).identity


def test_a_server_and_a_worker() -> None:
    server, worker = found(SERVER), found(WORKER)
    assert (server.role, server.index, server.num_workers) == (Role.SERVER, 1, 3)
    assert [str(one) for one in server.server_endpoints] == ["n1:6170", "n2:6170"]
    assert (worker.role, worker.index, worker.num_workers, worker.rendezvous) == (Role.WORKER, 2, 3, None)


@pytest.mark.parametrize("around", AROUND)
def test_what_others_say_around_it_is_not_asked(around: str) -> None:
    for said, role, index in ((SERVER, Role.SERVER, 1), (WORKER, Role.WORKER, 2)):
        environ = {**AROUND[around], **said}
        for who in (found(environ), PaddleCloudRoleMaker(environ=environ).identity):
            assert (who.role, who.index, who.num_workers) == (role, index, 3)


def test_a_heterogeneous_slurm_job_with_paddle_variables_alone_still_disagrees() -> None:
    paddle = {
        "TRAINING_ROLE": "PSERVER",
        "PADDLE_PSERVER_ID": "1",
        "PADDLE_TRAINERS_NUM": "3",
        "PADDLE_PSERVERS_IP_PORT_LIST": "n1:6170,n2:6170",
    }
    with pytest.raises(RoleError, match=r"PaddleCloud .* says server 1 .* but Slurm .* says worker 1"):
        found({**SLURM_SERVER, **paddle})


def test_workers_know_where_they_meet_and_who_sits_beside_them() -> None:
    listed = {"FLEET_WORKER_ENDPOINTS": "n3:6180,n4:6180,n4:6181"}
    who = found({**WORKER, **listed})
    assert (str(who.rendezvous and who.rendezvous.endpoint), who.local_rank, who.num_local_workers) == ("n3:6180", 1, 2)
    assert (who.node_index, who.num_nodes) == (1, 2)
    met = found({**WORKER, "MASTER_ADDR": "n3", "MASTER_PORT": "6000", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"})
    assert (str(met.rendezvous and met.rendezvous.endpoint), met.local_rank, met.num_local_workers) == ("n3:6000", 1, 4)


def test_a_collective_job_has_workers_alone() -> None:
    worker = {"FLEET_ROLE": "worker", "FLEET_INDEX": "1", "FLEET_WORKER_ENDPOINTS": "n3:6180,n4:6180"}
    for is_collective in (False, True):
        who = found(worker, is_collective)
        assert (who.index, who.num_workers, who.num_servers) == (1, 2, 0)


def test_servers_may_be_listed_by_a_folder() -> None:
    who = found({**WORKER, "FLEET_SERVERS": "file:/job/where", "FLEET_SERVER_NUM": "2"})
    assert [str(one) for one in who.server_endpoints] == ["file:/job/where#0", "file:/job/where#1"]


@pytest.mark.parametrize(
    ("environ", "is_collective", "text"),
    [
        ({**SERVERS, "FLEET_INDEX": "0"}, False, "FLEET_ROLE is not set, but FLEET_INDEX=0; say server or worker"),
        ({"FLEET_WORKERS": "2"}, False, "FLEET_ROLE is not set, but FLEET_WORKERS=2; say server or worker"),
        ({**SERVERS, "FLEET_ROLE": "server"}, False, "FLEET_INDEX is not set; FLEET_ROLE=server needs its index"),
        ({**SERVER, "FLEET_ROLE": "master"}, False, "FLEET_ROLE must be one of SERVER, WORKER, got 'master'"),
        ({**SERVER, "FLEET_INDEX": "2"}, False, "server index 2 does not fit a job of 2 servers"),
        ({**WORKER, "FLEET_INDEX": "3"}, False, "worker index 3 does not fit a job of 3 workers"),
        ({**SERVER, "FLEET_SERVERS": ""}, False, "FLEET_SERVERS is not set, but FLEET_ROLE=server"),
        ({**WORKER, "FLEET_WORKERS": ""}, False, "FLEET_WORKERS is not set; every process needs"),
        ({**WORKER, "FLEET_WORKER_ENDPOINTS": "a:1,b:1"}, False, "FLEET_WORKERS=3, but FLEET_WORKER_ENDPOINTS lists 2"),
        ({**WORKER, "FLEET_SERVERS": ""}, False, "FLEET_WORKER_ENDPOINTS is not set, and 3 workers without servers"),
        (
            {**WORKER, "FLEET_SERVERS": "file:/job"},
            False,
            "FLEET_SERVER_NUM is not set; FLEET_SERVERS=file:/job",
        ),
        ({**WORKER, "FLEET_SERVER_NUM": "3"}, False, "FLEET_SERVER_NUM=3, but FLEET_SERVERS lists 2; mend one of them"),
        (SERVER, True, "FLEET_ROLE=server, but a collective job has no servers"),
        (WORKER, True, "FLEET_SERVERS=n1:6170,n2:6170, but a collective job has no servers"),
    ],
)
def test_what_does_not_fit_together_is_one_line(environ: dict[str, str], is_collective: bool, text: str) -> None:
    with pytest.raises(RoleError) as caught:
        found(environ, is_collective)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_token_comes_from_a_file_where_a_secret_is_mounted(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a word of the job\n")
    named = {"FLEET_JOB_TOKEN_FILE": str(path)}
    assert job_secret(named) == "a word of the job"
    assert job_secret({**named, "FLEET_JOB_TOKEN": "another"}) == "another"
    assert job_secret({}) is None
    path.write_text("\n")
    with pytest.raises(VariableError, match="is empty"):
        job_secret(named)
    path.write_text("\x07 secret")
    with pytest.raises(VariableError, match="the value it has is not shown") as caught:
        job_secret(named)
    assert "secret" not in str(caught.value)
    with pytest.raises(VariableError, match="cannot be read: No such file"):
        job_secret({"FLEET_JOB_TOKEN_FILE": str(tmp_path / "none")})


def test_a_process_that_fleetrun_starts_does_not_inherit_it() -> None:
    assert env.without_roles({**SERVER, "FLEET_JOB_TOKEN_FILE": "x", "PATH": "/bin"}) == {"PATH": "/bin"}
