"""The port of a job: who is answered, what a mistake is told, and that a slow reader is nobody's problem."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.launch.arguments.options import Options
from fleet.launch.arguments.parser import parse
from fleet.launch.arguments.values import with_optional_value
from fleet.launch.cli import run
from fleet.observe.metrics.registry import Sample
from fleet_tools.watching.access import Access, own_access
from fleet_tools.watching.door import MOST_READERS, Answer, WatchDoor, as_json
from fleet_tools.watching.routes import page_routes
from fleet_tools.watching.watch_ports import WatchPorts

TOKEN = "a word of more than sixteen"


@pytest.fixture
def door() -> Iterator[WatchDoor]:
    made = WatchDoor(0, "--dashboard", Access(None), {"/": lambda _: Answer(b"here", "text/plain")})
    made.open()
    yield made
    made.close()


def ask(port: int, path: str = "/", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    told = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return told


def test_this_machine_is_answered_and_a_page_of_a_stranger_is_not(door: WatchDoor) -> None:
    status, headers, data = ask(door.port)
    assert (status, data) == (200, b"here")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(door.port, Host="localhost:1")[0] == 200
    status, _, data = ask(door.port, Host="evil.example")  # a name that a stranger lets lead here
    assert status == 403
    assert b"FLEET_METRICS_TOKEN" in data
    assert ask(door.port, "/nothing")[0] == 404


def test_with_a_token_nobody_else_is_answered() -> None:
    door = WatchDoor(0, "--dashboard", Access(TOKEN), {"/": lambda _: Answer(b"here", "text/plain")})
    door.open()
    try:
        assert ask(door.port)[0] == 403
        assert ask(door.port, Authorization="Bearer wrong")[0] == 403
        assert ask(door.port, Authorization=TOKEN)[0] == 403
        assert ask(door.port, Authorization=f"Bearer {TOKEN}", Host="any.where")[0] == 200
        status, headers, _ = ask(door.port, f"/?token={TOKEN.replace(' ', '%20')}")
        assert (status, headers["Location"]) == (303, "/")
        assert "HttpOnly" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].split(";")[0]
        assert ask(door.port, Cookie=cookie)[0] == 200
        assert ask(door.port, Cookie='fleet_token="')[0] == 403
        assert ask(door.port, "/?token=wrong")[0] == 403
    finally:
        door.close()


def test_a_token_that_can_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_METRICS_TOKEN", "short")
    with pytest.raises(UsageError, match="FLEET_METRICS_TOKEN has 5 characters"):
        own_access()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UsageError, match=rf"--metrics_port {port}: the port cannot be had \(Address already in use"
        ):
            WatchDoor(port, "--metrics_port", Access(None), {})


def test_readers_that_say_nothing_take_no_more_than_their_places(door: WatchDoor) -> None:
    silent = [socket.create_connection(("127.0.0.1", door.port), timeout=30) for _ in range(MOST_READERS)]
    with pytest.raises(OSError):  # nobody is left to answer, and nobody waits for it
        ask(door.port)
    for one in silent:
        one.close()
    for _ in range(200):
        try:
            assert ask(door.port)[0] == 200
            return
        except OSError:
            continue
    pytest.fail("places of readers that have left stay taken")


def test_the_page_names_no_file_that_is_not_a_log_of_the_job(tmp_path: Path) -> None:
    (tmp_path / files.FOLDER).mkdir()
    about = {"name": "worker 0", "role": "worker", "index": 0, "pid": 1, "log": "workerlog.0", "state": "ended"}
    job = {"time": 1.0, "began": 0.0, "ended": 1.0, "code": 0, "processes": [about]}
    whole.replace(tmp_path / files.FOLDER / "fleetrun.0.json", job)
    (tmp_path / "workerlog.0").write_text("one\ntwo\n")
    (tmp_path / "secret").write_text("s")
    routes = page_routes(tmp_path)
    assert json.loads(routes["/api/log"]({"name": "workerlog.0"}).data) == {"lines": ["one", "two"]}
    for name in ("secret", "../secret", "", "workerlog.0/../secret"):
        with pytest.raises(UsageError, match="no process of this job has a log"):
            routes["/api/log"]({"name": name})
    answer = json.loads(routes["/api/job"]({}).data)
    assert answer["is_over"]
    assert "lines" not in answer
    assert "lines" not in json.loads(routes["/api/job"]({"log": "secret"}).data)
    assert json.loads(routes["/api/job"]({"log": "workerlog.0"}).data)["lines"] == ["one", "two"]
    assert [one["state"] for one in answer["processes"]] == ["ended"]


def test_a_loss_that_is_not_finite_does_not_break_the_page() -> None:
    answer = as_json({"loss": float("nan"), "all": [float("inf"), 1.5, ("x", None)]})
    assert answer.data == b'{"loss":null,"all":[null,1.5,["x",null]]}'


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--dashboard", "train.py"], ["--dashboard=0", "train.py"]),
        (["--dashboard", "80", "train.py"], ["--dashboard=80", "train.py"]),
        (["--dashboard=80", "train.py"], ["--dashboard=80", "train.py"]),
        (["--log_dir", "--dashboard", "train.py"], ["--log_dir", "--dashboard", "train.py"]),
        (["-q", "--dashboard", "-m", "train", "--dashboard"], ["-q", "--dashboard=0", "-m", "train", "--dashboard"]),
        (["train.py", "--dashboard", "7"], ["train.py", "--dashboard", "7"]),
        (["--", "train.py", "--dashboard"], ["--", "train.py", "--dashboard"]),
        (["--dashboard"], ["--dashboard=0"]),
    ],
)
def test_a_port_may_be_left_out(given: list[str], meant: list[str]) -> None:
    assert with_optional_value(parse, given, "--dashboard", "0") == meant


def options(**more: Any) -> Options:
    return Options("train.py", **more)


def test_ports_that_cannot_work_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--metrics_port and --dashboard are both 9000"):
        WatchPorts(options(metrics_port=9000, dashboard=9000))
    monkeypatch.setenv("FLEET_METRICS", "0")
    with pytest.raises(UsageError, match="--dashboard has nothing to show with FLEET_METRICS=0"):
        WatchPorts(options(dashboard=0))


def test_without_prometheus_client_the_pip_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"pip install torch-fleet\[observe\]"):
        WatchPorts(options(metrics_port=0))


def test_top_shows_who_waits_and_who_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / files.FOLDER).mkdir()
    common: dict[str, Any] = {"pid": 1, "life": 0, "rss": None, "cpu": None, "waits": []}
    wait = {"what": "the gradients of worker 1, step 7", "workers": [1], "since": 1.0}
    processes = [
        {**common, "name": "server 0", "role": "server", "index": 0, "log": "serverlog.0", "state": "ended", "life": 2},
        {**common, "name": "worker 0", "role": "worker", "index": 0, "log": "workerlog.0", "state": "waiting"},
    ]
    processes[1]["waits"] = [wait]
    job = {"time": 9.0, "began": 1.0, "ended": 9.0, "code": 137, "script": "train.py", "num_servers": 1}
    job |= {"num_workers": 2, "processes": processes}
    whole.replace(tmp_path / files.FOLDER / "fleetrun.0.json", job)
    steps = Sample("fleet_worker_steps_total", 1234).to_json()
    whole.replace(tmp_path / files.FOLDER / "workerlog.0.1.json", {"time": 8.0, "samples": [steps]})
    files.append(tmp_path / files.FOLDER / "workerlog.0.events.jsonl", {"time": 2.0, "text": "step 5, 1 MB"})
    assert run(["top", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("train.py: 1 server and 2 workers, failed after 8.0 s, exit code 137")
    assert "ended, life 3" in told
    assert "1,234" in told
    assert "worker 0  step 5, 1 MB" in told


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["view", "nothing"], "nothing: there is no such folder; give the --log_dir of a job"),
        (["top", "nothing"], "nothing: there is no such folder; give the --log_dir of a job"),
        (["view", ".", "--port", "x"], "--port must be a whole number from 0 to 65535, got x"),
        (["--metrics_port", "x", "train.py"], "--metrics_port must be a whole number from 0 to 65535, got x"),
        (["view", "."], "no figures of a job are in it"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], text: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    told = capfd.readouterr().err
    assert text in told
    assert told.count("\n") == 1
