"""What cannot go on ends at once: one line that says what to do, exit code 2, and no other life."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from support.engine.job_by_hand import JobByHand
from support.jobs import LIMIT_S, RunningJob
from support.processes import wait_until

QUICK = {"FLEET_RECOVERY_TIMEOUT_S": "1.5"}
TRAIN = Path(__file__).parents[2] / "support" / "engine" / "train.py"


def lose_a_disk(kept: Path) -> None:
    """What server 1 kept is gone, as with a disk that was replaced."""
    shutil.rmtree(kept / "server-1")
    (kept / "server-1").mkdir()


def test_a_job_whose_server_has_lost_its_disk_is_not_tried_again(tmp_path: Path) -> None:
    arguments = ["--server_num", 2, "--worker_num", 1, "--durable", "kept", TRAIN, 10_000]
    with RunningJob(arguments, tmp_path, QUICK, warm=True) as job:
        wait_until(lambda: _steps(tmp_path) > 5, LIMIT_S, "five steps")
        job.send(signal.SIGINT)
        assert job.finish().code != 0
    lose_a_disk(tmp_path / "kept")
    with RunningJob(arguments, tmp_path, QUICK, warm=True) as job:
        result = job.finish()
    assert result.code == 2
    assert "worker 0 is not started again: it would meet the same" in result.err
    told = [one for one in result.out.splitlines() if "has nothing, while others have taken" in one]
    assert "what it kept is gone, and it has no copy (--standby); bring back what was kept" in told[-1]
    assert "started again in its place" not in result.err


def test_an_engine_learns_it_by_the_exit_code(tmp_path: Path) -> None:
    with JobByHand(tmp_path, servers=2, workers=1, **QUICK) as job:
        for index in range(2):
            job.server(index)
        job.worker(0, TRAIN, 10_000)
        wait_until(lambda: _steps(tmp_path) > 5, LIMIT_S, "five steps")
        for name in ("worker-0", "server-1"):
            job.kill(name)
        lose_a_disk(tmp_path / "kept")
        job.server(1)
        job.worker(0, TRAIN, 10_000)
        code, _, err = job.finish("worker-0")
    assert code == 2
    assert "has nothing, while others have taken" in err.splitlines()[-1]


def _steps(folder: Path) -> int:
    path = folder / "steps-0"
    return int(path.read_text() or 0) if path.exists() else 0
