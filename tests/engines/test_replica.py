"""What starts a process again inside its replica: how often, with which life, and when not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import clean_environ
from support.processes import wait_until

MODULE = "fleet_tools.engines.replica"


def replica(folder: Path, lives: int, script: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", MODULE, str(lives), "sh", "-c", f"echo $FLEET_LIFE >> lives; {script}"]
    return subprocess.Popen(command, cwd=folder, env=clean_environ(), stderr=subprocess.PIPE, text=True)


def lives_of(folder: Path) -> list[str]:
    return (folder / "lives").read_text().split()


@pytest.mark.parametrize(
    ("lives", "script", "code", "expected"),
    [
        (10, "[ $FLEET_LIFE = 3 ] || kill -9 $$", 0, "0 1 2 3"),  # bad luck: again, until it ends well
        (2, "kill -9 $$", 137, "0 1 2"),  # too often
        (10, "exit 3", 3, "0 1 2"),  # a mistake: three times early with an error
        (10, "[ $FLEET_LIFE = 1 ] && exit 2; exit 1", 2, "0 1"),  # it refuses what it was given
        (10, "exit 0", 0, "0"),
    ],
)
def test_a_process_lives_again(lives: int, script: str, code: int, expected: str, tmp_path: Path) -> None:
    with replica(tmp_path, lives, script) as process:
        _, said = process.communicate(timeout=60)
    assert (process.returncode, lives_of(tmp_path)) == (code, expected.split()), said


def test_what_it_is_told_it_passes_on_and_then_it_ends(tmp_path: Path) -> None:
    with replica(tmp_path, 10, "trap 'exit 7' TERM; echo >> ready; while :; do sleep 0.01; done") as process:
        wait_until((tmp_path / "ready").exists, 60, "the process to be ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 7
    assert lives_of(tmp_path) == ["0"]
