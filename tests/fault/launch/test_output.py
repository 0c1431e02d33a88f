"""What becomes of a job when its output is not read, cannot be written, or is already another job's."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from support.jobs import FLEETRUN, LIMIT_S, RunningJob, clean_environ, fleetrun, script
from support.processes import exists, told, wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("output", ["two pipes", "one pipe", "terminal"])
def test_a_reader_that_takes_nothing_does_not_keep_the_job(tmp_path: Path, output: str) -> None:
    """As `fleetrun ... | less` does while nobody scrolls, and a terminal after Ctrl-S."""
    train = script(
        tmp_path,
        """
        import os, signal
        print("x" * 1_000_000, flush=True)
        with open("trainer.0", "w") as file:
            file.write(f"{os.getpid()}\\n")
        signal.pause()
        """,
    )
    ends = pty.openpty() if output == "terminal" else os.pipe()
    stdout = ends[1]
    stderr = subprocess.PIPE if output == "two pipes" else subprocess.STDOUT
    arguments = [*FLEETRUN, "--nproc_per_node", "1", "--device", "cpu", str(train)]
    try:
        with subprocess.Popen(arguments, cwd=tmp_path, env=clean_environ(), stdout=stdout, stderr=stderr) as process:
            try:
                worker = int(told(tmp_path / "trainer.0", LIMIT_S, "the worker"))
                process.send_signal(signal.SIGTERM)
                wait_until(lambda: not exists(worker), LIMIT_S, "the worker to end")
                assert process.wait(timeout=LIMIT_S) == 143
            finally:
                process.kill()
    finally:
        for end in ends:
            os.close(end)


def bash(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=clean_environ(), capture_output=True, timeout=LIMIT_S
    )


def test_a_slow_reader_gets_everything(tmp_path: Path) -> None:
    train = script(tmp_path, "for number in range(100_000): print('line', number)")
    command = f"{' '.join(FLEETRUN)} --nproc_per_node 1 --device cpu {train} 2>/dev/null | (sleep 3; cat)"
    done = bash(command, tmp_path)
    assert done.stdout == (tmp_path / "log/workerlog.0").read_bytes()
    assert done.stdout.count(b"\n") == 100_000


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">/dev/full", "2>/dev/full", ">&- 2>&- <&-", "2>&1 | true"])
def test_a_job_ends_well_whatever_its_output_goes_to(tmp_path: Path, redirection: str) -> None:
    train = script(tmp_path, "import os; print('hello'); open('done', 'w')")
    command = f"set -o pipefail; {' '.join(FLEETRUN)} --nproc_per_node 1 --device cpu {train} {redirection}"
    done = bash(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "done").exists()
    assert (tmp_path / "log/workerlog.0").read_text() == "hello\n"


def test_two_jobs_cannot_share_a_log(tmp_path: Path) -> None:
    waiting = "import signal; open('ready', 'w').write('\\n'); signal.pause()"
    train = script(tmp_path, waiting)
    arguments = ["--nproc_per_node", 1, "--device", "cpu", train]
    with RunningJob(arguments, tmp_path) as first:
        first.read("ready")
        second = fleetrun(*arguments, cwd=tmp_path)
        assert second.code == 2
        assert second.err == (
            "fleetrun: log/workerlog.0 belongs to another job that is still running; choose another --log_dir\n"
        )
        first.send(signal.SIGTERM)
        assert first.finish().code == 143
