"""`python -m fleet.ps.server` as people start it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.errors import NotReadyError
from fleet.ps.proto import ps_pb2
from support.jobs import LIMIT_S, clean_environ
from support.serving.serving import REAL, is_serving, reached, server_process


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleet.ps.server", *arguments],
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(number: signal.Signals) -> None:
    with server_process(REAL) as server, reached(server.endpoint) as transport:
        assert is_serving(server.endpoint)
        assert "libtorch" not in Path(f"/proc/{server.process.pid}/maps").read_text()
        with pytest.raises(NotReadyError, match=f"server {server.endpoint}: no worker has declared a job yet"):
            transport.call("Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S).result(LIMIT_S)
        server.process.send_signal(signal.SIGUSR1)  # it means save and stop, for workers; engines send it to everybody
        assert is_serving(server.endpoint)
        server.process.send_signal(number)
        assert server.finish() == (0, "")


def test_the_environment_says_where_it_listens() -> None:
    environ = {
        "TRAINING_ROLE": "PSERVER",
        "PADDLE_PSERVERS_IP_PORT_LIST": "192.0.2.7:6170,{endpoint}",
        "PADDLE_PSERVER_ID": "1",
        "PADDLE_TRAINERS_NUM": "1",
    }
    with server_process(REAL[:2], environ=environ) as server:
        assert is_serving(server.endpoint)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "server: this process is no server (no launcher (a single worker) says worker 0); pass --endpoint"),
        (("--endpoint", "127.0.0.1"), "server: --endpoint '127.0.0.1' has no port"),
        (("--endpoint", "192.0.2.7:6170"), "server: a server on 192.0.2.7:6170 would serve everybody"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], text: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(text)
    assert done.stderr.count("\n") == 1


def test_help_teaches() -> None:
    done = run("--help")
    assert done.returncode == 0
    for word in ("--endpoint HOST:PORT", "FLEET_JOB_TOKEN=", "FLEET_SERVERS=127.0.0.1:6170", "Server listening on"):
        assert word in " ".join(done.stdout.split())
