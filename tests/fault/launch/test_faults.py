"""Whatever fails, the job ends, says why, and leaves nothing. (The conftest checks the last part after every test.)"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.launch.run.watch import GRACE_S
from support.jobs import FLEETRUN, LIMIT_S, RunningJob, clean_environ, fleetrun, script
from support.processes import exists, wait_until

pytestmark = pytest.mark.timeout(300)

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


@pytest.mark.parametrize("victim", ["trainer.1", "pserver.0"])
def test_kill_9_of_a_process_ends_a_server_job(tmp_path: Path, victim: str) -> None:
    train = script(tmp_path, WAITING)
    with RunningJob(["--server_num", 2, "--worker_num", 2, train], tmp_path) as job:
        pids = {name: int(job.read(name)) for name in ("trainer.0", "trainer.1", "pserver.0", "pserver.1")}
        os.kill(pids[victim], signal.SIGKILL)
        result = job.finish()
    assert result.code == 128 + signal.SIGKILL
    name = victim.replace("trainer.", "worker ").replace("pserver.", "server ")
    assert f"{name} failed: signal SIGKILL (9), exit code 137 (pid {pids[victim]}" in result.err
    assert not any(exists(pid) for pid in pids.values())


def test_kill_9_of_a_collective_worker(tmp_path: Path) -> None:
    train = script(tmp_path, WAITING)
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", train], tmp_path) as job:
        pids = [int(job.read(f"trainer.{index}")) for index in range(2)]
        os.kill(pids[0], signal.SIGKILL)
        result = job.finish()
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
        job.finish()
    wait_until(
        lambda: not any(exists(pid) for worker, child, _ in seen for pid in (worker, child)),
        LIMIT_S,
        "all processes to end",
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
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 5
    assert re.search(r"worker 0 \(pid \d+\) did not end within 5\.\d s; killed", result.err)
    assert "worker 1 failed: exit code 5" in result.err


def test_a_server_that_ends_slowly_after_the_last_worker_is_waited_for(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal, sys, time
        if os.environ["TRAINING_ROLE"] == "PSERVER":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit())
            open("ready", "w").write("\\n")
            try:
                signal.pause()
            finally:
                time.sleep(1)
                open("ended", "w").write("\\n")
        while not os.path.exists("ready"):
            time.sleep(0.01)
        """,
    )
    hasty = "from fleet.launch import cli; from fleet.launch.run import watch; watch.GRACE_S = 0.2; cli.main()"
    command = [sys.executable, "-c", hasty, "--server_num", "1", "--worker_num", "1", str(train)]
    result = subprocess.run(
        command, cwd=tmp_path, env=clean_environ(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "ended").exists()
    assert "waiting for server 0 to end; killed after 60 s" in result.stderr
    assert "did not end" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_stops_the_job(tmp_path: Path, number: signal.Signals) -> None:
    train = script(tmp_path, WAITING)
    with RunningJob(["--server_num", 1, "--worker_num", 2, train], tmp_path) as job:
        pids = [int(job.read(name)) for name in ("trainer.0", "trainer.1", "pserver.0")]
        job.send(number)
        result = job.finish()
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
        result = job.finish()
    assert result.code == 130
    waited = re.search(r"worker 0 \(pid \d+\) did not end within (\d+\.\d) s; killed", result.err)
    assert waited is not None, result.err
    assert float(waited[1]) < GRACE_S


def test_max_restart_starts_the_job_again(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, sys
        attempt = os.environ["FLEET_RESTART"]
        print("attempt", attempt)
        sys.exit(0 if attempt == "2" else 9)
        """,
    )
    again = fleetrun("--nproc_per_node", 1, "--device", "cpu", "--max_restart", 2, train, cwd=tmp_path)
    assert again.code == 0
    assert again.out == "attempt 0\nattempt 1\nattempt 2\n"
    assert "restarting the job, attempt 2 of 2" in again.err
    gave_up = fleetrun("--nproc_per_node", 1, "--device", "cpu", "--max_restart", 1, train, cwd=tmp_path)
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


def test_restarts_when_all_workers_fail_at_once(tmp_path: Path) -> None:
    """What one attempt leaves unheard must not be taken for the next one's."""
    train = script(
        tmp_path,
        """
        import os, signal
        index, attempt = os.environ["PADDLE_TRAINER_ID"], os.environ["FLEET_RESTART"]
        if attempt == "0":
            with open(f"trainer.{index}", "w") as file:
                file.write(f"{os.getpid()}\\n")
            signal.pause()
        """,
    )
    with RunningJob(["--nproc_per_node", 4, "--device", "cpu", "--max_restart", 1, train], tmp_path) as job:
        pids = [int(job.read(f"trainer.{index}")) for index in range(4)]
        job.send(signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        job.send(signal.SIGCONT)
        result = job.finish()
    assert result.code == 0, result.err
    assert "restarting the job, attempt 1 of 1" in result.err


def test_ctrl_c_while_a_failed_job_stops_prevents_the_restart(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal, sys, time
        if os.environ["PADDLE_TRAINER_ID"] == "0":
            signal.signal(signal.SIGTERM, lambda *_: open("asked", "w").write("\\n"))
            open("ready", "w").write("\\n")
            while True:
                signal.pause()
        while not os.path.exists("ready"):
            time.sleep(0.01)
        sys.exit(4)
        """,
    )
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", "--max_restart", 3, train], tmp_path) as job:
        job.read("asked")
        job.send(signal.SIGINT)
        result = job.finish()
    assert result.code == 4
    assert "restarting" not in result.err


def test_what_was_there_before_fleetrun_is_left_alone(tmp_path: Path) -> None:
    """`tensorboard & exec fleetrun ...` makes tensorboard a child of fleetrun, and so is the reader of its output."""
    train = script(tmp_path, "print('hello')")
    fleet = f"{' '.join(FLEETRUN)} --nproc_per_node 1 --device cpu {train}"
    command = ["bash", "-c", f"sleep 1000 & echo $! > pid; touch out; exec {fleet} > >(tee -a out) 2>&1"]
    try:
        subprocess.run(
            command,
            cwd=tmp_path,
            env=clean_environ(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
        )
        assert exists(int((tmp_path / "pid").read_text()))
        out = tmp_path / "out"
        wait_until(lambda: "fleetrun: finished in" in out.read_text(), LIMIT_S, "tee to write it all")
        assert "hello\n" in out.read_text()
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_nohup_is_respected(tmp_path: Path) -> None:
    train = script(tmp_path, WAITING)
    with RunningJob(["--nproc_per_node", 1, "--device", "cpu", train], tmp_path, prefix=["nohup"]) as job:
        pid = int(job.read("trainer.0"))
        job.send(signal.SIGHUP)
        job.send(signal.SIGTERM)
        result = job.finish()
    assert result.code == 143
    assert not exists(pid)


def test_a_job_inside_a_job_ends_with_it(tmp_path: Path) -> None:
    inner = script(tmp_path, WAITING, "inner.py")
    outer = script(
        tmp_path,
        f"""
        import subprocess, sys
        options = ["--server_num", "1", "--worker_num", "1", "--log_dir", "inner_log"]
        command = [sys.executable, "-m", "fleet.launch", *options, {str(inner)!r}]
        sys.exit(subprocess.run(command).returncode)
        """,
    )
    with RunningJob(["--nproc_per_node", 1, "--device", "cpu", outer], tmp_path) as job:
        pids = [int(job.read(name)) for name in ("trainer.0", "pserver.0")]
        job.send(signal.SIGKILL)
        job.finish()
    wait_until(lambda: not any(map(exists, pids)), LIMIT_S, "the inner job to end")


def test_a_process_that_hides_is_found(tmp_path: Path) -> None:
    """It has left its group, its session and its environment; it is still a descendant."""
    train = script(
        tmp_path,
        """
        import subprocess
        print(subprocess.Popen(["sleep", "1000"], start_new_session=True, env={}).pid)
        """,
    )
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 0
    assert not exists(int(result.out.strip()))


def test_a_job_survives_its_guard(tmp_path: Path) -> None:
    until_go = "import time\n    while not os.path.exists('go'): time.sleep(0.01)"
    train = script(tmp_path, WAITING.replace("signal.pause()", until_go))
    with RunningJob(["--nproc_per_node", 1, "--device", "cpu", train], tmp_path) as job:
        worker = int(job.read("trainer.0"))
        children = map(int, Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split())
        for guard in set(children) - {worker}:
            os.kill(guard, signal.SIGKILL)
        (tmp_path / "go").touch()
        result = job.finish()
    assert result.code == 0, result.err


def test_ctrl_c_at_any_moment_of_the_start_ends_the_job(tmp_path: Path) -> None:
    """From its first line on, whatever it imports, opens or starts at that moment; before, Python has its own words."""
    struck = """
        import itertools, os, signal, sys
        from fleet.launch import entry

        moment, count, launcher = int(sys.argv.pop(1)), itertools.count(1), os.getpid()

        def strike(event, arguments):  # Python tells of each import, file, socket and process
            if os.getpid() != launcher:  # a child that is being started
                return
            number = next(count)
            if number == moment:
                signal.raise_signal(signal.SIGINT)
            if event == "subprocess.Popen" and not moment:
                open("moments", "w").write(str(number))

        sys.addaudithook(strike)
        entry.main()
    """
    launcher, train = script(tmp_path, struck, "struck.py"), script(tmp_path, "import signal; signal.pause()")

    def run(moment: int, script: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(launcher), str(moment), "--nproc_per_node", "1", "--device", "cpu", str(script)]
        return subprocess.run(
            command, cwd=tmp_path, env=clean_environ(), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    assert run(0, script(tmp_path, "", "nothing.py")).returncode == 0
    last = int((tmp_path / "moments").read_text())
    assert last > 100
    for moment in (1, *range(last // 8, last, last // 8), last - 1, last, last + 3):
        result = run(moment, train)
        assert result.returncode == 130, (moment, result.returncode, result.stderr)
        assert "Traceback" not in result.stderr, (moment, result.stderr)
