"""The scripts that `--render slurm` prints, sent to a real Slurm with three nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.durable import burning_job
from support.processes import wait_until
from support.rendered import text_of
from support.slurm import LIMIT_S, Slurm, slurm, why_not

REASON = why_not()
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.timeout(300),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Slurm]:
    (tmp_path / "train.py").symlink_to(burning_job.__file__)
    with slurm(tmp_path, 3) as found:
        yield found


def logs(cluster: Slurm) -> str:
    """All that jobs have said, for a test that fails."""
    return (
        cluster.run("scontrol", "show", "job")
        + "\n".join(f"{path}: {path.read_text()[-1500:]}" for path in sorted(cluster.folder.rglob("*log.[0-9]*")))
        + "\n".join(path.read_text()[-1500:] for path in cluster.folder.glob("*.out"))
    )


def steps(path: Path) -> list[int]:
    return [int(one) for one in re.findall(r"^step (\d+) ", path.read_text(), re.MULTILINE)] if path.exists() else []


def test_one_fleetrun_on_each_node(cluster: Slurm) -> None:
    job = cluster.submit(
        text_of("slurm", ("--nnodes", "2", "--server_num", "1", "--worker_num", "1", "train.py", "async", "20"))
    )
    assert cluster.wait_for(job, "COMPLETED", "FAILED") == "COMPLETED", logs(cluster)
    assert "counted 640 of 640" in (cluster.folder / f"train-{job}.out").read_text()


def test_servers_and_workers_as_components_of_a_heterogeneous_job(cluster: Slurm) -> None:
    job = cluster.submit(text_of("slurm-het", ("--server_num", "2", "--worker_num", "2", "train.py", "async", "20")))
    assert cluster.wait_for(job, "COMPLETED", "FAILED") == "COMPLETED", logs(cluster)
    said = [(cluster.folder / f"train-{job}-worker-{task}.out").read_text() for task in (0, 1)]
    assert all("counted 640 of 640" in one for one in said)
    for task in (0, 1):
        assert "every worker has left" in (cluster.folder / f"train-{job}-server-{task}.out").read_text()


def test_a_durable_job_that_is_requeued_goes_on(cluster: Slurm) -> None:
    job, log = begin(cluster)
    cluster.run("scontrol", "requeue", job)
    goes_on(cluster, job, log)


def test_a_durable_job_that_is_told_saves_and_is_requeued(cluster: Slurm) -> None:
    job, log = begin(cluster)
    cluster.run("scancel", "--batch", "--signal=USR1", job)  # as Slurm does where the time limit is near
    goes_on(cluster, job, log)
    assert "SIGUSR1: 1 workers are to save and stop" in (cluster.folder / f"train-{job}.out").read_text()


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_durable_job_goes_on_when_a_node_is_gone(cluster: Slurm, node: str) -> None:
    """The first one also runs the script itself."""
    job, log = begin(cluster)
    cluster.kill_node(node)
    cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=gone")  # as it finds out in minutes
    goes_on(cluster, job, log)
    assert "NodeList=n[1-2]" not in cluster.run("scontrol", "show", "job", job)


def begin(cluster: Slurm) -> tuple[int, Path]:
    """A durable job on two nodes that is under way, and the log of its worker 0."""
    words = ("--nnodes", "2", "--server_num", "1", "--worker_num", "1", "--durable", "kept")
    job = cluster.submit(text_of("slurm", (*words, "train.py", "async", "60", "100")))
    log = cluster.folder / "log" / "workerlog.0"
    wait_until(lambda: 10 in steps(log), LIMIT_S, "step 10")
    return job, log


def goes_on(cluster: Slurm, job: int, log: Path) -> None:
    """It is requeued, goes on where it was, and has made each step once."""
    cluster.go_on(job)
    assert cluster.wait_for(job, "COMPLETED", "FAILED") == "COMPLETED", logs(cluster)
    assert "counted 1920 of 1920" in (cluster.folder / f"train-{job}.out").read_text()
    assert steps(log).count(0) <= 1


def test_a_cancelled_job_leaves_no_process(cluster: Slurm) -> None:
    job = cluster.submit(
        text_of("slurm-het", ("--server_num", "2", "--worker_num", "2", "train.py", "async", "100000", "10"))
    )
    log = cluster.folder / f"train-{job}-worker-0.out"
    wait_until(lambda: 5 in steps(log), LIMIT_S, "step 5")
    cluster.run("scancel", job)
    assert cluster.wait_for(job, "CANCELLED") == "CANCELLED"
    wait_until(lambda: not running_in(cluster.folder), LIMIT_S, "processes to end")


def running_in(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink() == folder and b"python" in (path / "cmdline").read_bytes():
                found.append(path.name)
        except OSError:
            continue
    return found
