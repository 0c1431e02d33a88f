"""Processes of a job that fails as a whole: one failure ends the others, and signals are passed on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import clean_environ
from support.processes import wait_until


def replica(folder: Path, script: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fleet_tools.engines.replica", "where", "sh", "-c", script]
    return subprocess.Popen(command, cwd=folder, env=clean_environ(), stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_a_failure_is_noted_where_the_others_look(script: str, code: int, tmp_path: Path) -> None:
    with replica(tmp_path, script) as process:
        assert process.wait(60) == code
    assert (tmp_path / "where" / "failed").exists() == (code != 0)


def test_the_others_end_when_one_has_failed(tmp_path: Path) -> None:
    with replica(tmp_path, "echo >> ready; exec sleep 600") as process:
        wait_until((tmp_path / "ready").exists, 60, "the process to be ready")
        (tmp_path / "where").mkdir()
        (tmp_path / "where" / "failed").touch()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "another process of the job has failed" in said


def test_what_a_replica_is_told_it_passes_on_and_that_is_no_failure(tmp_path: Path) -> None:
    with replica(tmp_path, "trap 'exit 7' TERM; echo >> ready; while :; do sleep 0.01; done") as process:
        wait_until((tmp_path / "ready").exists, 60, "the process to be ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 7
    assert not (tmp_path / "where").exists()
