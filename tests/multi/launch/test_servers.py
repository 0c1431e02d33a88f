"""Parameter servers under fleetrun: the device they are given, and how they are ended."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet.launch.meet.job_token import own_token
from fleet.launch.meet.team import Team
from fleet.launch.planning import devices
from fleet.launch.planning.plan import sharing_note
from fleet.launch.rounds.prepare import prepare
from support.first_days.first_day import BESIDE_SERVERS, SERVE, SERVERS, edited
from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(300)

SERVER = """
    import os, signal, sys, time
    index = os.environ.get("PADDLE_PSERVER_ID", "")
    if os.environ["TRAINING_ROLE"] == "TRAINER":
        while not all(os.path.exists(f"ready.{i}") for i in range(2)):
            time.sleep(0.01)
        sys.exit(0)

    def stop(*_):
        print("saving", flush=True)
        time.sleep(0.5)
        print("saved")
        sys.exit(CODE)

    signal.signal(signal.SIGTERM, stop)
    open(f"ready.{index}", "w").close()
    while True:
        signal.pause()
"""


def test_servers_that_catch_sigterm_have_time_to_end(tmp_path: Path) -> None:
    train = script(tmp_path, SERVER.replace("CODE", "0"))
    result = fleetrun("--server_num", 2, "--worker_num", 1, train, cwd=tmp_path)
    assert result.code == 0, result.err
    for index in range(2):
        assert (tmp_path / f"log/serverlog.{index}").read_text() == "saving\nsaved\n"
    assert "warning:" not in result.err
    assert "error:" not in result.err
    assert re.search(r"fleetrun: finished in [\d.]+ s\n\Z", result.err)


def test_a_server_that_ends_badly_after_the_workers_is_mentioned(tmp_path: Path) -> None:
    train = script(tmp_path, SERVER.replace("CODE", "0 if index == '0' else 7"))
    result = fleetrun("--server_num", 2, "--worker_num", 1, train, cwd=tmp_path)
    assert result.code == 0, result.err
    warnings = [line for line in result.err.splitlines() if "warning:" in line]
    assert len(warnings) == 1
    assert "server 1 was told to stop: exit code 7; see log/serverlog.1" in warnings[0]


def test_a_server_whose_script_fails_behind_run_server_fails_the_job(tmp_path: Path) -> None:
    """Nobody stops it before, however long it takes to get there, and nobody trains again for it."""
    fails = "if fleet.is_server():\n    fleet.run_server()\n    import time\n    time.sleep(0.2)\n    sys.exit(7)\n"
    train = script(tmp_path, edited(BESIDE_SERVERS, ((SERVE, fails),)))
    result = fleetrun(*SERVERS, "--max_restart", 1, train, cwd=tmp_path, warm=True)
    assert result.code == 7, result.err
    assert "server 0 failed: exit code 7" in result.err
    assert result.err.count("starting 1 server") == 1
    assert "stopped because of it" not in result.err


def test_servers_that_do_not_catch_sigterm_are_a_success_too(tmp_path: Path) -> None:
    train = script(tmp_path, SERVER.replace("signal.signal(", "(lambda *_: None)("))
    result = fleetrun("--server_num", 2, "--worker_num", 1, train, cwd=tmp_path)
    assert result.code == 0, result.err
    assert "warning:" not in result.err


def test_notes_that_a_killed_job_has_left_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for name in ("serverlog.0.note.serving", "workerlog.0.note.unstopped"):
        (tmp_path / "log" / name).write_text('{"time": 1.0}')
    result = fleetrun("--server_num", 1, "--worker_num", 1, script(tmp_path, "pass"), cwd=tmp_path)
    assert result.code == 0, result.err
    assert "server 0 ran the script to its end and served nobody" in result.err
    assert "stop_worker" not in result.err
    assert sorted(path.name for path in (tmp_path / "log").glob("*log.*")) == ["serverlog.0", "workerlog.0"]


def alone() -> Team:
    return Team(own_token({}), 0)


def options(folder: Path, **more: object) -> Options:
    train = script(folder, "")
    return Options(str(train), server_num=3, worker_num=1, **more)  # type: ignore[arg-type]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("two_gpus")
def test_servers_share_the_gpus_in_turn(tmp_path: Path) -> None:
    with ExitStack() as holds:
        plan = prepare(options(tmp_path, server_device="cuda"), alone(), holds).plan
    *servers, worker = plan.processes
    assert [server.variables["FLEET_DEVICE"] for server in servers] == ["cuda"] * 3
    assert [server.variables["CUDA_VISIBLE_DEVICES"] for server in servers] == ["0", "1", "0"]
    assert [server.device for server in servers] == ["gpu 0", "gpu 1", "gpu 0"]
    assert worker.variables["FLEET_DEVICE"] == "cpu"
    assert "CUDA_VISIBLE_DEVICES" not in worker.variables
    assert sharing_note(plan) is None


@pytest.mark.usefixtures("two_gpus")
def test_servers_use_no_gpu_that_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with ExitStack() as holds:
        plan = prepare(options(tmp_path, server_device="cuda", device="cuda"), alone(), holds).plan
    assert {process.variables["CUDA_VISIBLE_DEVICES"] for process in plan.processes} == {"1"}
    assert {process.variables["FLEET_DEVICE"] for process in plan.processes} == {"cuda"}


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("device", [None, "cpu"])
def test_servers_stay_on_the_cpu_unless_asked(tmp_path: Path, device: str | None) -> None:
    with ExitStack() as holds:
        plan = prepare(options(tmp_path, server_device=device, device="cuda"), alone(), holds).plan
    *servers, worker = plan.processes
    assert {server.variables["FLEET_DEVICE"] for server in servers} == {"cpu"}
    assert not any("CUDA_VISIBLE_DEVICES" in server.variables for server in servers)
    assert worker.variables["FLEET_DEVICE"] == "cuda"


@pytest.mark.parametrize(
    ("asks", "servers", "workers", "starts"),
    [
        ("server_device", "203.0.113.1:6170", "127.0.0.1", "worker 0"),
        ("device", "127.0.0.1:6171", "203.0.113.1", "server 0"),
    ],
)
def test_only_a_machine_that_starts_such_processes_needs_a_gpu_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: str, servers: str, workers: str, starts: str
) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda: 0)
    train = str(script(tmp_path, ""))
    lists = {"servers": servers, "workers": workers, "dry_run": True}
    other = "device" if asks == "server_device" else "server_device"
    with ExitStack() as holds:
        plan = prepare(Options(train, **lists, **{asks: "cuda"}), alone(), holds).plan  # type: ignore[arg-type]
    assert [(process.name, process.variables["FLEET_DEVICE"]) for process in plan.processes] == [(starts, "cpu")]
    with ExitStack() as holds, pytest.raises(UsageError, match=f"--{other} cuda: this machine has no GPU"):
        prepare(Options(train, **lists, **{other: "cuda"}), alone(), holds)  # type: ignore[arg-type]


def test_the_environment_of_a_server_on_the_cpu(tmp_path: Path) -> None:
    train = script(tmp_path, "import os; print(os.environ['FLEET_DEVICE'], os.environ.get('CUDA_VISIBLE_DEVICES'))")
    environ = {"CUDA_VISIBLE_DEVICES": "5"}
    result = fleetrun(
        *("--banner", "--server_num", 1, "--worker_num", 1, "--server_device", "cpu", train),
        cwd=tmp_path,
        environ=environ,
    )
    assert result.code == 0, result.err
    assert re.search(r"^server_device: cpu$", result.err, flags=re.MULTILINE)
    assert (tmp_path / "log/workerlog.0").read_text() == "cpu 5\n"
