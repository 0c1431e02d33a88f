"""A served model is asked by gRPC and by HTTP; what cannot be asked is refused in one line."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fleet.errors import CommunicationError, FleetError, UsageError
from fleet.net import LOOPBACK, Endpoint
from fleet_serve.client import ServingClient
from fleet_serve.doors.answers import Answers, FollowState
from fleet_serve.doors.grpc_door import GrpcDoor
from fleet_serve.doors.http_door import HttpDoor
from fleet_serve.rows.model import load_model
from support.serving.served_models import save_copy

TOKEN = "the-token-of-the-job"
KEYS, ROWS = np.array([3, 7, -1], np.int64), np.arange(12, dtype=np.float32).reshape(3, 4)
MOST_BYTES = 1 << 16


class Doors:
    """Both ways to one model."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.grpc = GrpcDoor(answers, Endpoint(LOOPBACK, 0), TOKEN, threads=1)
        self.http = HttpDoor(answers, Endpoint(LOOPBACK, 0), TOKEN)

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status of an answer by HTTP, and what it says."""
        connection = http.client.HTTPConnection(LOOPBACK, self.http.endpoint.port, timeout=20)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {TOKEN}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        try:
            connection.request("GET" if body is None else "POST", path, data, given)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, text.decode() if path == "/metrics" else json.loads(text)


@contextmanager
def opened(answers: Answers) -> Iterator[Doors]:
    doors = Doors(answers)
    doors.grpc.start()
    doors.http.start()
    doors.grpc._pool.submit(int).result()  # its thread is no leak of the test that asks first
    try:
        yield doors
    finally:
        doors.grpc.stop(1.0)
        doors.http.stop()


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("served")
    save_copy(folder / "model", {"user": (KEYS, ROWS), "item": (KEYS[:1], ROWS[:1, :2])})
    answers = Answers(MOST_BYTES)
    answers.serve(load_model(folder / "model", folder / "cache"))
    with opened(answers) as both:
        yield both


@pytest.fixture
def client(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServingClient]:
    monkeypatch.setenv("FLEET_JOB_TOKEN", TOKEN)
    with ServingClient(str(doors.grpc.endpoint)) as one:
        yield one


def test_rows_of_several_tables_by_both_doors(doors: Doors, client: ServingClient) -> None:
    rows, version = client.lookup({"user": KEYS[::-1].copy(), "item": np.array([7, 3])})
    assert np.array_equal(rows["user"], ROWS[::-1])
    assert rows["item"].tolist() == [[0, 0], [0, 1]]
    status, answer = doors.ask("/v1/lookup", {"tables": {"user": [-1, 8], "item": []}})
    assert status == 200
    assert answer["tables"] == {
        "user": {"rows": [ROWS[2].tolist(), [0] * 4], "unseen": 1},
        "item": {"rows": [], "unseen": 0},
    }
    assert answer["version"] == {"base": version.base, "numbers": []}
    info = client.info()
    assert (info.is_ready, info.lag_s, info.stream) == (True, -1.0, "")
    assert [(one.table, one.width, one.rows, one.format, one.unseen) for one in info.tables] == [
        ("item", 2, 1, "float32", "zeros"),
        ("user", 4, 3, "float32", "zeros"),
    ]
    assert doors.ask("/v1/info")[1]["tables"]["user"]["rows"] == 3


def test_what_cannot_be_asked_by_grpc(doors: Doors, client: ServingClient) -> None:
    with pytest.raises(UsageError, match=r"there is no table 'users'; ask for one of: 'item', 'user'"):
        client.lookup({"users": KEYS})
    with pytest.raises(UsageError, match=r"the answer would have 64 KiB|the answer would have .*raise --max_bytes"):
        client.lookup({"user": np.zeros(MOST_BYTES // 16 + 1, np.int64)})
    with pytest.raises(CommunicationError, match="larger than max"):
        client.lookup({"user": np.zeros(1 << 17, np.int64)})
    with pytest.raises(FleetError, match="no message of proto/serve.proto"):
        client._call("Lookup", doors_call(doors), b"\xff\xff")
    with pytest.raises(UsageError, match=r"keys of table 'user' have 7 bytes; send int64"):
        client._call("Lookup", doors_call(doors), b"\x0a\x0f\x0a\x04user\x12\x07" + b"1234567")
    rows, _ = client.lookup({"user": KEYS})  # it goes on
    assert np.array_equal(rows["user"], ROWS)


def doors_call(doors: Doors) -> Any:
    """Lookup with bytes as they are."""

    def call(data: bytes, timeout: float, metadata: Any) -> bytes:
        with grpc.insecure_channel(str(doors.grpc.endpoint)) as channel:
            method: Any = channel.unary_unary("/fleet.serve.Serving/Lookup")
            found: bytes = method(data, timeout=timeout, metadata=metadata)
            return found

    return call


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/v1/lookup", b"{", 400, "the request is no JSON"),
        ("/v1/lookup", b"[" * 50_000, 400, "the request is no JSON"),
        ("/v1/lookup", {"table": {}}, 400, "the request must be"),
        ("/v1/lookup", {"tables": {"user": [1.5]}}, 400, "keys of table 'user' must be a list of whole numbers"),
        ("/v1/lookup", {"tables": {"user": [True]}}, 400, "keys of table 'user' must be a list of whole numbers"),
        ("/v1/lookup", {"tables": {"user": [[1]]}}, 400, "keys of table 'user' must be a list of whole numbers"),
        ("/v1/lookup", {"tables": {"user": [2**63]}}, 400, "keys of table 'user' must be int64"),
        ("/v1/lookup", {"tables": {"x": [1]}}, 400, "there is no table 'x'"),
        ("/v1/lookup", {"tables": {"user": [1] * 5000}}, 400, "the answer would have"),
        ("/v1/lookup", {"tables": {"user": [1] * 4000}}, 400, "the answer would have"),
        ("/v1/look", {"tables": {}}, 404, "nothing is posted to /v1/look"),
        ("/v2", None, 404, "there is no /v2"),
    ],
)
def test_what_cannot_be_asked_by_http(doors: Doors, path: str, body: Any, status: int, text: str) -> None:
    found, answer = doors.ask(path, body)
    assert (found, answer["error"][: len(text)]) == (status, text)
    assert "\n" not in answer["error"]


def test_a_request_of_a_gigabyte_is_refused_unread(doors: Doors) -> None:
    status, answer = doors.ask("/v1/lookup", b"{}", Content_Length=str(1 << 30))
    assert status == 413
    assert answer["error"].startswith("the request has 1 GiB, over the limit of 65,536 bytes; ask for fewer")
    assert doors.ask("/v1/lookup", b"{}", Content_Length="-1")[0] == 411


@pytest.mark.parametrize(
    "head", ["GET /healthz HTTP/1.1\r\nX: ", "POST /v1/lookup HTTP/1.1\r\nContent-Length: 500\r\n{}"]
)
def test_a_caller_who_sends_a_byte_at_a_time_holds_no_place(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    monkeypatch.setattr("fleet_serve.doors.http_door.PATIENCE_S", 0.3)
    with socket.create_connection((LOOPBACK, doors.http.endpoint.port), timeout=0.02) as caller:
        caller.sendall(head.format(f"Authorization: Bearer {TOKEN}\r\n\r\n").encode())
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            try:
                caller.sendall(b"1")
                assert caller.recv(1) == b""
                break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("it was read on for 5 s")


def test_a_connection_is_used_again(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.doors.http_door.PATIENCE_S", 0.3)
    connection = http.client.HTTPConnection(LOOPBACK, doors.http.endpoint.port, timeout=20)
    data = json.dumps({"tables": {"user": [3]}})
    connection.connect()
    used = connection.sock
    for _ in range(3):
        connection.request("POST", "/v1/lookup", data, {"Authorization": f"Bearer {TOKEN}"})
        assert json.loads(connection.getresponse().read())["tables"]["user"]["rows"] == [ROWS[0].tolist()]
        assert connection.sock is used
        time.sleep(0.2)
    connection.close()


def test_strangers_learn_whether_it_is_there_and_nothing_else(doors: Doors, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for path, body in (("/v1/info", None), ("/metrics", None), ("/v1/lookup", {"tables": {"user": [1]}})):
        for shown in ("", "Bearer", "Bearer x", f"Basic {TOKEN}", TOKEN):
            assert doors.ask(path, body, Authorization=shown)[0] == 401
    for path in ("/healthz", "/readyz"):
        assert doors.ask(path, Authorization="") == (200, {"status": "ok"})
    with grpc.insecure_channel(str(doors.grpc.endpoint)) as channel:
        with pytest.raises(grpc.RpcError, match="this process has no token"):
            info: Any = channel.unary_unary("/fleet.serve.Serving/Info")
            info(b"", timeout=20)
        doors.grpc.tell_health()
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
        assert health.status == health_pb2.HealthCheckResponse.SERVING


def test_figures(doors: Doors) -> None:
    pytest.importorskip("prometheus_client")
    before = doors.ask("/metrics")[1]
    doors.ask("/v1/lookup", {"tables": {"item": [3, 4, 5]}})

    def value(text: str, name: str) -> float:
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    after = doors.ask("/metrics")[1]
    for name, more in (
        ('fleet_serve_requests_total{door="http"}', 1),
        ('fleet_serve_keys_total{table="item"}', 3),
        ('fleet_serve_unseen_total{table="item"}', 2),
        ("fleet_serve_lookup_seconds_count", 1),
        ("fleet_serve_rows{", 0),
    ):
        assert value(after, name) - value(before, name) == more, name
    assert value(after, "fleet_serve_ready") == 1


def test_it_is_ready_once_a_model_is_there_and_not_too_old(tmp_path: Path) -> None:
    state = FollowState()
    answers = Answers(MOST_BYTES, state=lambda: state, max_lag_s=10.0)
    with opened(answers) as doors:
        assert doors.ask("/readyz") == (503, {"error": "no model is loaded yet"})
        assert doors.ask("/v1/lookup", {"tables": {"user": [1]}})[0] == 503
        assert doors.ask("/healthz")[0] == 200
        assert doors.ask("/v1/info")[1]["ready"] is False
        answers.serve(load_model(save_copy(tmp_path / "model", {"user": (KEYS, ROWS)}), tmp_path / "cache"))
        assert doors.ask("/readyz")[0] == 200
        state = FollowState("one", 11.0, "batch 4 is missing")
        assert doors.ask("/readyz") == (503, {"error": "11.0 s behind the job, over --max_lag 10: batch 4 is missing"})
        assert doors.ask("/v1/lookup", {"tables": {"user": [1]}})[0] == 200  # it still answers
        with grpc.insecure_channel(str(doors.grpc.endpoint)) as channel:
            doors.grpc.tell_health()
            stub = health_pb2_grpc.HealthStub(channel)
            status = stub.Check(health_pb2.HealthCheckRequest(), timeout=20).status
            assert status == health_pb2.HealthCheckResponse.NOT_SERVING
