"""Whatever fails, the job ends, says why, and leaves nothing. (The conftest checks the last part after every test.)"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.jobs import RunningJob, fleetrun, script
from support.processes import exists, wait_until

pytestmark = pytest.mark.timeout(90)

# Each process writes its pid and then waits to be ended. Without torch, so that the tests are quick.
WAITING = """
    import os, signal, subprocess, sys
    role = os.environ.get("TRAINING_ROLE", "TRAINER").lower()
    index = os.environ.get("PADDLE_PSERVER_ID" if role == "pserver" else "PADDLE_TRAINER_ID")
    print("hello from", role, index)
    with open(f"{role}.{index}", "w") as file:
        file.write(f"{os.getpid()}\\n")
    signal.pause()
"""


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
    assert "rank=[1]" in result.err


@pytest.mark.parametrize("victim", ["trainer.1", "pserver.0"])
def test_kill_9_of_a_process_ends_a_server_job(tmp_path: Path, victim: str) -> None:
    train = script(tmp_path, WAITING)
    with RunningJob(["--server_num", 2, "--worker_num", 2, train], tmp_path) as job:
        pids = {name: int(job.read(name)) for name in ("trainer.0", "trainer.1", "pserver.0", "pserver.1")}
        os.kill(pids[victim], signal.SIGKILL)
        result = job.finish(limit_s=10)
    assert result.code == 128 + signal.SIGKILL
    name = victim.replace("trainer.", "worker ").replace("pserver.", "server ")
    assert f"{name} failed: signal SIGKILL (9), exit code 137 (pid {pids[victim]}" in result.err
    assert not any(exists(pid) for pid in pids.values())


def test_kill_9_of_a_collective_worker(tmp_path: Path) -> None:
    train = script(tmp_path, WAITING)
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", train], tmp_path) as job:
        pids = [int(job.read(f"trainer.{index}")) for index in range(2)]
        os.kill(pids[0], signal.SIGKILL)
        result = job.finish(limit_s=10)
    assert result.code == 137
    assert "worker 0 failed: signal SIGKILL" in result.err
    assert "| hello from trainer 0" in result.err


def test_kill_9_of_the_launcher_leaves_nothing(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal, socket, subprocess, sys
        index = os.environ["PADDLE_TRAINER_ID"]
        # A child in a session of its own, which neither a process group nor the parent's death would reach.
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        listener = socket.create_server(("127.0.0.1", 0))
        with open(f"trainer.{index}", "w") as file:
            file.write(f"{os.getpid()} {child.pid} {listener.getsockname()[1]}\\n")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            signal.pause()
        """,
    )
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", train], tmp_path) as job:
        seen = [tuple(map(int, job.read(f"trainer.{index}").split())) for index in range(2)]
        job.send(signal.SIGKILL)
        job.finish(limit_s=10)
    wait_until(
        lambda: not any(exists(pid) for worker, child, _ in seen for pid in (worker, child)), 10, "all processes to end"
    )
    assert not _listening_ports() & {port for _, _, port in seen}


def _listening_ports() -> set[int]:
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {int(row.split()[1].rpartition(":")[2], 16) for row in rows if row.split()[3] == "0A"}


def test_a_worker_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal, sys, time
        if os.environ["PADDLE_TRAINER_ID"] == "0":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open("ready", "w").write("\\n")
            while True:
                signal.pause()
        while not os.path.exists("ready"):
            time.sleep(0.01)
        sys.exit(5)
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, limit_s=20)
    assert result.code == 5
    assert "worker 0" in result.err
    assert "did not end within 5 s; killed" in result.err
    assert "worker 1 failed: exit code 5" in result.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_stops_the_job(tmp_path: Path, number: signal.Signals) -> None:
    train = script(tmp_path, WAITING)
    with RunningJob(["--server_num", 1, "--worker_num", 2, train], tmp_path) as job:
        pids = [int(job.read(name)) for name in ("trainer.0", "trainer.1", "pserver.0")]
        job.send(number)
        result = job.finish(limit_s=10)
    assert result.code == 128 + number
    assert not any(exists(pid) for pid in pids)


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import signal
        signal.signal(signal.SIGINT, lambda *_: open("asked", "w").write("\\n"))
        open("ready", "w").write("\\n")
        while True:
            signal.pause()
        """,
    )
    with RunningJob(["--nproc_per_node", 1, "--device", "cpu", train], tmp_path) as job:
        job.read("ready")
        job.send(signal.SIGINT)
        job.read("asked")
        job.send(signal.SIGINT)
        result = job.finish(limit_s=10)
    assert result.code == 130
    assert result.seconds < 5 or "killed" in result.err


def test_the_report_names_the_cause_not_the_consequence(tmp_path: Path) -> None:
    """Worker 1 raises but is slow to leave; worker 0 notices and exits before it."""
    train = script(
        tmp_path,
        """
        import atexit, os, sys, time
        from fleet.observe import record_crash
        record_crash()
        if os.environ["PADDLE_TRAINER_ID"] == "1":
            @atexit.register
            def leave_slowly():
                open("raised", "w").write("\\n")
                while not os.path.exists("noticed"):
                    time.sleep(0.01)
                time.sleep(0.3)
            raise ValueError("the cause")
        while not os.path.exists("raised"):
            time.sleep(0.01)
        open("noticed", "w").write("\\n")
        sys.exit(7)
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 1
    assert "worker 1 failed: exit code 1" in result.err
    assert "| ValueError: the cause" in result.err
    assert "after it, worker 0 failed: exit code 7" in result.err


def test_max_restart_starts_the_job_again(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, sys
        attempt = os.environ["FLEET_RESTART"]
        print("attempt", attempt, "worker", os.environ["PADDLE_TRAINER_ID"])
        sys.exit(0 if attempt == "2" else 9)
        """,
    )
    again = fleetrun("--nproc_per_node", 2, "--device", "cpu", "--max_restart", 2, train, cwd=tmp_path)
    assert again.code == 0
    assert [line for line in again.out.splitlines() if "attempt" in line] == [f"attempt {n} worker 0" for n in range(3)]
    assert "restarting the job, attempt 2 of 2" in again.err
    gave_up = fleetrun("--nproc_per_node", 2, "--device", "cpu", "--max_restart", 1, train, cwd=tmp_path)
    assert gave_up.code == 9


def test_a_background_process_of_a_finished_worker_is_ended(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import subprocess
        print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
        """,
    )
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 0
    assert not exists(int(result.out.strip()))
