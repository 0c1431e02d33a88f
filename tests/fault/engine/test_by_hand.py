"""What an engine does when a process dies: it starts it again, elsewhere, and tells nobody. Training goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.engine.job_by_hand import JobByHand
from support.jobs import LIMIT_S
from support.processes import wait_until

TRAIN = Path(__file__).parents[2] / "support" / "engine" / "train.py"
NUM_STEPS = 60


@contextmanager
def begun(cwd: Path, **environ: str) -> Iterator[JobByHand]:
    with JobByHand(cwd, servers=2, workers=2, **environ) as job:
        for index in range(2):
            job.server(index)
            job.worker(index, TRAIN, NUM_STEPS)
        yield job


def steps(job: JobByHand, worker: int) -> int:
    path = job.cwd / f"steps-{worker}"
    return int(path.read_text() or 0) if path.exists() else 0


def ended(job: JobByHand) -> list[str]:
    """What the workers came to; servers end when both have left."""
    told = [job.finish(f"worker-{index}") for index in range(2)]
    assert [code for code, _, _ in told] == [0, 0], told
    for index in range(2):
        code, _, err = job.finish(f"server-{index}")
        assert code == 0, err
    return [out for _, out, _ in told]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with begun(tmp_path_factory.mktemp("undisturbed")) as job:
        return ended(job)


@pytest.mark.parametrize("transport", ["", "TCP", "GRPC"])
def test_a_server_comes_back_on_another_port_and_a_worker_after_it(
    transport: str, undisturbed: list[str], tmp_path: Path
) -> None:
    with begun(tmp_path, FLEET_LOCAL_TRANSPORT=transport) as job:
        wait_until(lambda: steps(job, 0) > 10, LIMIT_S, "ten steps")
        before = job.address(1)
        job.kill("server-1")
        job.server(1)
        assert job.address(1) != before
        so_far = steps(job, 1)
        wait_until(lambda: steps(job, 1) > so_far + 5, LIMIT_S, "five more steps")
        job.kill("worker-1")
        job.worker(1, TRAIN, NUM_STEPS)
        told = ended(job)
    if transport == "GRPC":
        undisturbed = [line.replace("True", "False") for line in undisturbed]
    assert told == undisturbed
    assert all(f"{NUM_STEPS} steps" in line for line in told)
