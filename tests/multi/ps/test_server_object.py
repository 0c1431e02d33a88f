"""`fleet.ps.Server`: a server in any process, which takes no signals and ends nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import fleet
from fleet.errors import CheckpointError, EndpointError, NotReadyError, UsageError
from fleet.net import Endpoint
from fleet.net.directory import FileDirectory
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.messages import SERVICE
from support.jobs import LIMIT_S, clean_environ
from support.serving.serving import TOKEN, is_serving, reached, status_of


def test_it_serves_between_start_and_stop_and_takes_no_signals(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    directory = FileDirectory(str(tmp_path / "where"))
    server = fleet.ps.Server(3, token=TOKEN, directory=directory)
    assert not server.ready
    with pytest.raises(NotReadyError, match=r"server 3 does not serve; call start\(\) first"):
        _ = server.endpoint
    endpoint = server.start()
    assert (server.ready, server.start(), server.endpoint) == (True, endpoint, endpoint)
    assert directory.find(3) == Endpoint.parse(endpoint)
    with reached(endpoint) as transport, pytest.raises(NotReadyError, match="no worker has declared a job yet"):
        transport.call("Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S).result(LIMIT_S)
    assert not server.wait(0.2)
    assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    assert server.stop()
    assert server.stop()
    assert not server.ready
    again = fleet.ps.Server(3, endpoint=endpoint, token=TOKEN)  # its port is free
    again.start()
    assert again.stop()


@pytest.fixture
def durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget afterwards what `journal=` has set."""
    monkeypatch.setenv("FLEET_DURABLE", "")


@pytest.mark.usefixtures("durable")
def test_journals_lie_by_index_and_what_they_refuse_is_raised(tmp_path: Path) -> None:
    servers = [fleet.ps.Server(index, token=TOKEN, journal=tmp_path) for index in range(2)]
    for server in servers:
        server.start()
    with pytest.raises(UsageError, match=f"another server keeps its journal in {tmp_path}/server-1"):
        fleet.ps.Server(1, token=TOKEN, journal=tmp_path).start()
    with pytest.raises(UsageError, match=f"but FLEET_DURABLE={tmp_path}; give one of them"):
        fleet.ps.Server(2, token=TOKEN, journal=tmp_path / "other")
    for server in servers:
        server.stop()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server-0", "server-1"]
    (tmp_path / "server-1" / "journal-00000000000000000001.log").write_bytes(bytes(100))
    damaged = fleet.ps.Server(1, token=TOKEN, journal=tmp_path)
    with pytest.raises(CheckpointError, match="is damaged at offset 0"):
        damaged.start()
    assert not damaged.ready


def test_a_port_that_is_taken_and_an_address_without_a_token_are_refused() -> None:
    server = fleet.ps.Server(token=TOKEN)
    endpoint = server.start()
    with pytest.raises(EndpointError, match="is in use by another process"):
        fleet.ps.Server(token=TOKEN, endpoint=endpoint).start()
    server.stop()
    with pytest.raises(UsageError, match=r"a server on 192.0.2.7:0 would serve everybody"):
        fleet.ps.Server(endpoint="192.0.2.7:0")


def test_a_probe_has_no_token_and_learns_nothing_else() -> None:
    server = fleet.ps.Server(token=TOKEN)
    endpoint = server.start()
    assert is_serving(endpoint, token=None)
    assert is_serving(endpoint, token="another")
    with grpc.insecure_channel(endpoint) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        large = health_pb2.HealthCheckRequest(service="x" * (8 << 20))  # which nobody reads
        assert health.Check(large, timeout=LIMIT_S).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as watched:
            next(health.Watch(health_pb2.HealthCheckRequest(), timeout=LIMIT_S))
        stats: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/Stats")
        for error in (watched.value, stats.future(b"", timeout=LIMIT_S).exception(LIMIT_S)):
            assert status_of(error)[0] is grpc.StatusCode.UNAUTHENTICATED
    server.stop()


def run(environ: dict[str, str], *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "fleet.ps.server", *arguments],
        env=clean_environ() | environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    return done.returncode, done.stderr


def test_a_journal_by_port_is_named_with_what_to_do(tmp_path: Path) -> None:
    durable = {"FLEET_DURABLE": str(tmp_path)}
    code, err = run(durable, "--endpoint", "127.0.0.1:6170")
    assert (code, err.count("\n")) == (2, 1)
    assert "a server keeps its journal there by its number; pass --index N" in err
    (tmp_path / "server-6170").mkdir()
    (tmp_path / "server-6170" / "journal-00000000000000000001.log").touch()
    code, err = run(durable, "--endpoint", "127.0.0.1:6170", "--index", "1")
    assert (code, err.count("\n")) == (2, 1)
    assert f"mv {tmp_path}/server-6170 {tmp_path}/server-1" in err
