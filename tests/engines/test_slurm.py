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
    return "\n".join(
        f"{path}: {path.read_text()[-1500:]}" for path in sorted(cluster.folder.rglob("*log*"))
    ) + "\n".join(path.read_text()[-1500:] for path in cluster.folder.glob("*.out"))


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
    words = (
        "--nnodes",
        "2",
        "--server_num",
        "1",
        "--worker_num",
        "1",
        "--durable",
        "kept",
        "train.py",
        "async",
        "60",
        "100",
    )
    job = cluster.submit(text_of("slurm", words))
    log = cluster.folder / "log" / "workerlog.0"
    wait_until(lambda: 10 in steps(log), LIMIT_S, "step 10")
    cluster.run("scontrol", "requeue", job)
    cluster.wait_for(job, "PENDING")
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")  # or it rests two minutes first
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
