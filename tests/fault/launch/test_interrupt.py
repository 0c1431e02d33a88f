"""Ctrl-C while a job or fleetrun itself is still importing, and what a terminal shows of a failure."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from support.jobs import FLEETRUN, LIMIT_S, RunningJob, clean_environ, script

pytestmark = pytest.mark.timeout(300)

SLOW_MODULE = """
    import os, signal
    name = f"importing.{os.environ.get('RANK', '')}"
    with open(name + ".part", "w") as file:
        file.write("\\n")
    os.rename(name + ".part", name)
    signal.pause()
"""


def test_ctrl_c_while_workers_import_shows_no_trace(tmp_path: Path) -> None:
    script(tmp_path, SLOW_MODULE, "slow.py")
    train = script(tmp_path, "print('hello')\nimport slow")
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", train], tmp_path) as job:
        for rank in range(2):
            job.read(f"importing.{rank}")
        job.send(signal.SIGINT)
        result = job.finish()
    assert result.code == 130
    assert result.out == "hello\n"
    said = [line[len("12:00:00 ") :] for line in result.err.splitlines()]
    assert said[1] == "fleetrun: warning: SIGINT: stopping 2 processes"
    assert said[2].startswith("fleetrun: warning: stopped after ")
    assert len(said) == 3
    assert "KeyboardInterrupt" in (tmp_path / "log/workerlog.0").read_text()


def test_ctrl_c_while_fleetrun_imports_ends_it_without_a_word(tmp_path: Path) -> None:
    script(tmp_path, SLOW_MODULE, "click.py")
    with RunningJob(["train.py"], tmp_path, environ={"PYTHONPATH": str(tmp_path)}) as job:
        job.read("importing.")
        job.send(signal.SIGINT)
        result = job.finish()
    assert (result.code, result.out, result.err) == (130, "", "")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_trace_of_worker_0_is_shown_once_where_both_streams_are(tmp_path: Path, is_terminal: bool) -> None:
    train = script(tmp_path, "print('hello'); raise ValueError('the cause')")
    screen, terminal = pty.openpty() if is_terminal else os.pipe()
    command = [*FLEETRUN, "--nproc_per_node", "1", "--device", "cpu", str(train)]
    try:
        done = subprocess.run(
            command, cwd=tmp_path, env=clean_environ(), stdout=terminal, stderr=terminal, timeout=LIMIT_S
        )
        shown = os.read(screen, 10_000).decode()
    finally:
        os.close(screen)
        os.close(terminal)
    assert done.returncode == 1
    assert shown.count("ValueError: the cause") == 1
    assert "its last lines are above, all of them in log/workerlog.0" in shown
