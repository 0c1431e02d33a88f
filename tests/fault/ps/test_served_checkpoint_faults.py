"""kill -9 while servers write a checkpoint in the background: the one before stays whole, and the next run goes on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from fleet.checkpoint import Manifest, StepFolders, check_files, read_manifest
from support.durable import served_checkpoint_job
from support.jobs import RunningJob, fleetrun

pytestmark = pytest.mark.timeout(300)

PROGRAM = Path(served_checkpoint_job.__file__)


@pytest.mark.parametrize("victim", ["writing.1", "worker.0", "worker.1"])
def test_a_kill_in_the_middle_of_a_save(victim: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    where = ["--server_num", 2, "--worker_num", 2]
    environ = {"FLEET_RPC_TIMEOUT_S": "5"}
    with RunningJob([*where, PROGRAM, saved, tmp_path, "SLOW"], tmp_path, environ, warm=True) as job:
        for server in range(2):
            job.read(f"writing.{server}")
        os.kill(int(job.read(victim)), signal.SIGKILL)
        assert job.finish().code == 137
    steps = StepFolders(saved, Manifest)
    assert steps.complete() == [3]
    check_files(steps.path(3), read_manifest(steps.path(3)), reread=True)
    if victim == "worker.1":  # what is left of the save that was cut off is cleared up
        done = fleetrun(*where, PROGRAM, saved, tmp_path, cwd=tmp_path, warm=True)
        assert done.code == 0, done.err
        assert json.loads((tmp_path / "0.json").read_text())["begin"] == 3
        assert sorted(path.name for path in saved.iterdir()) == ["step-00000009", "step-00000012"]
