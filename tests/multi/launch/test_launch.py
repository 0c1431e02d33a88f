"""fleetrun with real processes: what children are told, what the terminal shows, what is refused."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fleet import net
from support.jobs import FLEETRUN, LIMIT_S, RunningJob, clean_environ, fleetrun, script

pytestmark = pytest.mark.timeout(300)

ALL_REDUCE = """
    import fleet
    fleet.init(is_collective=True)
    total = fleet.util.all_reduce(fleet.worker_index() + 1)
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()}: total {total}")
"""


def test_two_workers_meet_and_only_worker_0_is_followed(tmp_path: Path) -> None:
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", script(tmp_path, ALL_REDUCE), cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert result.out == "worker 0 of 2: total 3\n"
    assert (tmp_path / "log/workerlog.1").read_text() == "worker 1 of 2: total 3\n"
    events = [r"starting 2 workers on cpu; logs in log", r"finished in [\d.]+ s"]
    assert re.fullmatch("".join(rf"\d\d:\d\d:\d\d fleetrun: {event}\n" for event in events), result.err), result.err


def test_the_banner_shows_arguments_and_distributed_variables(tmp_path: Path) -> None:
    train = script(tmp_path, "")
    result = fleetrun("--banner", "--nproc_per_node", 2, "--device", "cpu", train, "--lr", "0.1", cwd=tmp_path)
    assert result.code == 0, result.err
    assert "-----------  Configuration Arguments -----------\n" in result.err
    assert f"\ntraining_script: {train}\ntraining_script_args: ['--lr', '0.1']\n" in result.err
    assert "Run collective cpu mode." in result.err
    box = [line for line in result.err.splitlines() if line.startswith(("    |", "    +"))]
    assert len({len(line) for line in box}) == 1
    assert re.search(r"\| +PADDLE_TRAINER_ENDPOINTS +127\.0\.0\.1:\d+,127\.0\.0\.1:\d+ +\|", result.err)
    assert re.search(r"\| +PADDLE_TRAINERS_NUM +2 +\|", result.err)


def test_a_plain_torch_script_runs_unchanged(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        print("total", total.item(), "of", dist.get_world_size())
        dist.destroy_process_group()
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert result.out == "total 3.0 of 2\n"


def test_a_server_job_tells_each_process_its_role_and_stops_the_servers(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import json, signal, fleet
        fleet.init()
        role = "worker" if fleet.is_worker() else "server"
        gathered = fleet.util.all_gather([role, fleet.worker_index()], comm_world="all")
        if fleet.is_worker():
            fleet.barrier_worker()
            print(json.dumps({"gathered": gathered, "files": fleet.util.get_file_shard(list("abcde")),
                              "servers": fleet.server_endpoints(), "workers": fleet.worker_num()}))
        else:
            print("serving", fleet.server_index(), fleet.util.all_reduce(1, comm_world="server"))
            signal.sigwait({signal.SIGTERM})
            print("told to stop")
        """,
    )
    # Blocked before the script starts, so that the signal cannot come too early.
    train.write_text("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n" + train.read_text())
    result = fleetrun("--server_num", 2, "--worker_num", 2, train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    seen = [json.loads((tmp_path / f"log/workerlog.{index}").read_text()) for index in range(2)]
    assert seen[0]["gathered"] == [["worker", 0], ["worker", 1], ["server", 0], ["server", 1]]
    assert [one["files"] for one in seen] == [["a", "b", "c"], ["d", "e"]]
    assert len(set(seen[0]["servers"])) == 2
    for index in range(2):
        assert (tmp_path / f"log/serverlog.{index}").read_text() == f"serving {index} 2\ntold to stop\n"
    assert "starting 2 servers and 2 workers on cpu; logs in log\n" in result.err
    assert len(result.err.splitlines()) == 2, result.err


def test_two_jobs_at_once_do_not_collide(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    arguments = ["--nproc_per_node", 2, "--device", "cpu", script(tmp_path, ALL_REDUCE)]
    with RunningJob(arguments, folders[0], warm=True) as first, RunningJob(arguments, folders[1], warm=True) as second:
        assert [first.finish().code, second.finish().code] == [0, 0]


def test_ports_are_held_while_the_job_starts(tmp_path: Path) -> None:
    """Between the choice of a port and the child's use of it, nobody else can have it."""
    train = script(
        tmp_path,
        """
        import os, signal
        with open(f"worker.{os.environ['PADDLE_TRAINER_ID']}", "w") as file:
            file.write(os.environ["PADDLE_CURRENT_ENDPOINT"] + "\\n")
        signal.pause()
        """,
    )
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", train], tmp_path) as job:
        for index in range(2):
            port = int(job.read(f"worker.{index}").rpartition(":")[2])
            for options in ([], [socket.SO_REUSEADDR]):
                with socket.socket() as thief:
                    for option in options:
                        thief.setsockopt(socket.SOL_SOCKET, option, 1)
                    with pytest.raises(OSError, match="Address already in use"):
                        thief.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    "arguments", [["--nproc_per_node", 2, "--device", "cpu"], ["--server_num", 1, "--worker_num", 2]]
)
def test_selfcheck(tmp_path: Path, arguments: list[object]) -> None:
    result = fleetrun(*arguments, "--selfcheck", cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert "selfcheck passed" in result.out
    assert "worker 1" in result.out


def test_dry_run_starts_nothing(tmp_path: Path) -> None:
    result = fleetrun("--server_num", 1, "--worker_num", 2, "--dry-run", script(tmp_path, "1/0"), cwd=tmp_path)
    assert result.code == 0, result.err
    assert re.search(r"worker 1 +127\.0\.0\.1:\d+ +cpu +log/workerlog\.1", result.out)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--ips", f"{net.outward_address()},203.0.113.1", "--device", "cpu"],
        ["--servers", "127.0.0.1:6170", "--workers", "203.0.113.1,203.0.113.2"],
    ],
)
def test_dry_run_of_several_machines_waits_for_none(tmp_path: Path, arguments: list[str]) -> None:
    result = fleetrun(*arguments, "--dry-run", script(tmp_path, "1/0"), cwd=tmp_path)
    assert result.code == 0, result.err
    assert "dry run: nothing was started" in result.out


def test_a_script_of_paddles_guides_gets_the_banner_unless_it_is_to_be_quiet(tmp_path: Path) -> None:
    train = script(tmp_path, "try:\n    import paddle\nexcept ImportError:\n    pass")
    arguments = ("--nproc_per_node", 1, "--device", "cpu", "--dry-run", train)
    assert "Configuration Arguments" in fleetrun(*arguments, cwd=tmp_path).err
    assert fleetrun("--quiet", *arguments, cwd=tmp_path).err == ""


def test_quiet_shows_the_script_alone(tmp_path: Path) -> None:
    train = script(tmp_path, "print('hello')")
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", "-q", train, cwd=tmp_path)
    assert result.code == 0
    assert result.out == "hello\n"
    assert result.err == ""


def test_a_killed_progress_bar_gives_the_terminal_back(tmp_path: Path) -> None:
    """On a real terminal: the cursor returns, and the report starts on a line of its own."""
    train = script(tmp_path, "print('\\x1b[?25l bar', end='', flush=True); import os; os.kill(os.getpid(), 9)")
    arguments = [*FLEETRUN, "--nproc_per_node", "1", "--device", "cpu", str(train)]
    screen, terminal = pty.openpty()
    try:
        done = subprocess.run(
            arguments, cwd=tmp_path, env=clean_environ(), stdout=terminal, stderr=subprocess.PIPE, timeout=LIMIT_S
        )
        shown = os.read(screen, 10_000)
    finally:
        os.close(screen)
        os.close(terminal)
    assert done.returncode == 137
    assert shown.endswith(b"\x1b[?25l bar\x1b[?25h\r\n")


def test_a_worker_that_never_comes_is_named(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal
        if os.environ["RANK"] == "1":
            signal.pause()
        import fleet
        fleet.init(is_collective=True)
        """,
    )
    result = fleetrun(
        "--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, environ={"FLEET_INIT_TIMEOUT_S": "1"}
    )
    assert result.code == 1
    assert re.search(r"DeadlineError: waited 1 s at 127\.0\.0\.1:\d+ for worker 1; ", result.err)


def test_values_that_differ_are_refused_on_every_worker(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import fleet
        fleet.init(is_collective=True)
        try:
            fleet.util.all_reduce([1.0] * (fleet.worker_index() + 1))
        except ValueError as error:
            print(error)
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    expected = "in the worker world: rank 0: float64 [1] sum; rank 1: float64 [2] sum\n"
    for text in (result.out, (tmp_path / "log/workerlog.1").read_text()):
        assert text == f"all_reduce was called with different values {expected}"


def test_a_module_can_be_started(tmp_path: Path) -> None:
    script(tmp_path, "import sys; print(__name__, sys.argv[1:])", "trainer_module.py")
    arguments = ("--nproc_per_node", 1, "--device", "cpu", "-m", "--", "trainer_module", "--gpus", "7")
    result = fleetrun(*arguments, cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "__main__ ['--gpus', '7']\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], ["--epochs", "3", "--help", "-m"]),
        ([], ["--device", "cpu"]),  # the script names it
        ([], ["--", "--server_num", "2"]),
        (["--"], ["--server_num", "2"]),
    ],
)
def test_options_of_the_script_reach_it(tmp_path: Path, before: list[str], after: list[str]) -> None:
    train = script(tmp_path, "import sys; print(sys.argv[1:])  # takes --device")
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", *before, train, *after, cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == f"{after}\n"


def test_help_needs_neither_torch_nor_rich(tmp_path: Path) -> None:
    program = (
        "import sys; from fleet.launch.cli import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S)
    assert "Usage: fleetrun" in done.stdout
    assert not {"'torch'", "'rich'", "'psutil'", "'numpy'"} & set(re.findall(r"'\w+'", done.stderr))


def test_gpus_can_be_named_on_a_machine_without_any_if_the_device_is_cpu(tmp_path: Path) -> None:
    train = script(tmp_path, "import os; print(os.environ['PADDLE_TRAINERS_NUM'])")
    result = fleetrun("--gpus", "0,1", "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "2\n"


def test_variables_of_another_launcher_do_not_reach_the_children(tmp_path: Path) -> None:
    stray = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "203.0.113.1", "PADDLE_TRAINER_ID": "5", "LOCAL_RANK": "3"}
    train = script(tmp_path, "import fleet, signal; fleet.init(); print(fleet.is_server(), fleet.worker_index())")
    result = fleetrun("--server_num", 1, "--worker_num", 1, train, cwd=tmp_path, environ=stray)
    assert result.code == 0, result.err
    assert result.out == "False 0\n"


def test_a_script_whose_name_looks_like_an_option(tmp_path: Path) -> None:
    script(tmp_path, "print('hello')", "-x.py")
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", "--", "-x.py", cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "hello\n"


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_one_machine_by_another_name(tmp_path: Path, host: str) -> None:
    arguments = ("--ips", host, "--nproc_per_node", 2, "--device", "cpu", script(tmp_path, ALL_REDUCE))
    result = fleetrun(*arguments, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert result.out.endswith("worker 0 of 2: total 3\n")
