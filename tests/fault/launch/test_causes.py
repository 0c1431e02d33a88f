"""The report of a failed job names the worker that failed first, whoever is gone first or is looked at first."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from support.jobs import LIMIT_S, RunningJob, fleetrun, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)


def test_a_worker_that_exits_3_ends_the_job_with_3(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal, sys
        if os.environ["PADDLE_TRAINER_ID"] == "1":
            for line in range(30):
                print("line", line)
            sys.exit(3)
        signal.pause()
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 3
    report = result.err[result.err.index("worker 1 failed") :]
    assert report.startswith("worker 1 failed: exit code 3 (pid ")
    assert "the last 20 lines of log/workerlog.1" in report
    assert "| line 10\n" in report
    assert "| line 29\n" in report
    assert "| line 9\n" not in report
    assert "stopped because of it: worker 0" in report
    assert re.search(r"\n\d\d:\d\d:\d\d fleetrun: error: failed after [\d.]+ s, exit code 3\n\Z", result.err)


def test_the_report_names_the_cause_not_the_consequence(tmp_path: Path) -> None:
    """Worker 1 raises but is slow to leave; worker 0 notices and exits before it."""
    train = script(
        tmp_path,
        """
        import atexit, os, pathlib, sys, time
        from fleet.jobfiles.ending import note_the_end
        note_the_end()
        if os.environ["PADDLE_TRAINER_ID"] == "1":
            @atexit.register
            def leave_slowly():
                open("raised", "w").close()
                while not os.path.exists("noticed"):
                    time.sleep(0.01)
                state = pathlib.Path("/proc", open("noticed").read(), "stat")
                while ") Z " not in state.read_text():
                    time.sleep(0.01)
            raise ValueError("the cause")
        while not os.path.exists("raised"):
            time.sleep(0.01)
        pathlib.Path("noticed.part").write_text(str(os.getpid()))
        os.rename("noticed.part", "noticed")
        sys.exit(7)
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 1
    assert "worker 1 failed: exit code 1" in result.err
    assert "| ValueError: the cause" in result.err
    assert "after it, worker 0 failed: exit code 7" in result.err


def test_a_worker_that_leaves_a_collective_with_exit_3_is_the_cause(tmp_path: Path) -> None:
    """Its peers lose the connection and fail too, and earlier to be gone: leaving torch takes a while."""
    train = script(
        tmp_path,
        """
        import sys, torch, torch.distributed as dist
        import fleet
        fleet.init(is_collective=True)
        if fleet.worker_index() == 1:
            sys.exit(3)
        dist.all_reduce(torch.ones(1))
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 3, result.err
    assert "error: worker 1 failed: exit code 3" in result.err


def test_a_killed_worker_is_the_cause_on_a_busy_machine_too(tmp_path: Path) -> None:
    """The launcher may come to the dead process after its peers have noted that they lost it."""
    train = script(
        tmp_path,
        """
        import os, signal, time
        from fleet.jobfiles.ending import note_the_end
        note_the_end()
        index = os.environ["PADDLE_TRAINER_ID"]
        with open(f"trainer.{index}", "w") as file:
            file.write(f"{os.getpid()}\\n")
        if index == "0":
            signal.pause()
        while not os.path.exists("go"):
            time.sleep(0.01)
        raise ConnectionError("lost worker 0")
        """,
    )
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", train], tmp_path) as job:
        pids = [int(job.read(f"trainer.{index}")) for index in range(2)]
        job.send(signal.SIGSTOP)  # a launcher that gets no time
        os.kill(pids[0], signal.SIGKILL)
        (tmp_path / "go").touch()
        note = tmp_path / f"log/workerlog.1.note.{pids[1]}"
        wait_until(note.exists, LIMIT_S, "the peer to note its end")
        job.send(signal.SIGCONT)
        result = job.finish()
    assert result.code == 137, result.err
    assert "error: worker 0 failed: signal SIGKILL" in result.err
    assert not list((tmp_path / "log").glob("*.note*"))
