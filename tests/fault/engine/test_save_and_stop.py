"""SIGUSR1, and SIGTERM within the grace time: save, stop in order, exit code 75; the same command goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.engine.job_by_hand import JobByHand
from support.jobs import LIMIT_S, RunningJob
from support.processes import wait_until

SCRIPTS = Path(__file__).parents[2] / "support" / "engine"
SAVED = 75


def steps(folder: Path, worker: int = 0) -> int:
    path = folder / f"steps-{worker}"
    return int(path.read_text() or 0) if path.exists() else 0


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("sync", signal.SIGUSR1),
        pytest.param("collective", signal.SIGUSR1, marks=pytest.mark.exhaustive),
        pytest.param("async", signal.SIGTERM, marks=pytest.mark.exhaustive),
    ],
)
def test_all_workers_save_one_step_and_the_same_command_goes_on(kind: str, number: int, tmp_path: Path) -> None:
    shape = ["--nproc_per_node", 2] if kind == "collective" else ["--server_num", 1, "--worker_num", 2]
    grace = {"FLEET_GRACE_S": "60"}
    with RunningJob([*shape, SCRIPTS / "saves.py", kind], tmp_path, grace, warm=True) as job:
        wait_until(lambda: min(steps(tmp_path), steps(tmp_path, 1)) > 5, LIMIT_S, "five steps of both")
        job.send(signal.Signals(number))
        result = job.finish()
    assert (result.code, "saved and stopped, as it was told to" in result.err) == (SAVED, True), result
    (folder,) = (tmp_path / "runs").glob("step-*")
    step = int(folder.name.removeprefix("step-"))
    assert steps(tmp_path) == steps(tmp_path, 1) == step
    with RunningJob([*shape, SCRIPTS / "saves.py", kind], tmp_path, warm=True) as job:
        again = job.finish()
    assert again.code == 0, again
    assert f"begins at {step}" in again.out
    assert steps(tmp_path) == step + 1


def test_a_worker_of_a_durable_job_stops_between_two_steps(tmp_path: Path) -> None:
    """It saves nothing: its next life goes on with the next step."""
    with JobByHand(tmp_path, servers=1, workers=1, FLEET_GRACE_S="60") as job:
        job.server(0)
        job.worker(0, SCRIPTS / "train.py", 100_000)
        wait_until(lambda: steps(tmp_path) > 5, LIMIT_S, "five steps")
        job.signal("worker-0", signal.SIGTERM)
        code, _, err = job.finish("worker-0")
        assert (code, "told by SIGTERM to stop: saved, exit code 75" in err) == (SAVED, True)
        done = steps(tmp_path)
        job.worker(0, SCRIPTS / "train.py", 100_000)
        wait_until(lambda: steps(tmp_path) > done, LIMIT_S, "the next step")
        job.signal("worker-0", signal.SIGUSR1)
        assert job.finish("worker-0")[0] == SAVED
        job.signal("server-0", signal.SIGTERM)
        assert job.finish("server-0")[0] == 0
    assert list((tmp_path / "kept" / "server-0").glob("journal-*"))
