"""What strangers send to a server's port: after each of it, the server still answers those that have the token."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import numpy as np
import psutil
import pytest

from fleet.ps.proto import ps_pb2
from fleet.ps.wire import messages as wire
from fleet.ps.wire.status import TOKEN_KEY
from support.plane import raw_http2
from support.serving.serving import TOKEN, TOY, ServerProcess, is_serving, reached, server_process, status_of

LIMIT_S = 60.0
# What the memory of a server may grow by; a stranger can ask for 4 GiB in five bytes.
MAX_GROWTH_BYTES = 200 << 20


@pytest.fixture(scope="module")
def toy() -> Iterator[ServerProcess]:
    """One for all tests: it is to survive them in any order."""
    with server_process(TOY) as started:
        yield started


@pytest.fixture
def server(toy: ServerProcess) -> Iterator[ServerProcess]:
    before = psutil.Process(toy.process.pid).memory_info().rss
    yield toy
    assert toy.process.poll() is None, "the server has ended"
    assert is_serving(toy.endpoint)
    with reached(toy.endpoint) as transport:
        tensor = np.arange(1000, dtype=np.float32)
        _, answer = transport.call("Push", ps_pb2.PushRequest.Header(), [tensor], LIMIT_S).result(LIMIT_S)
        np.testing.assert_array_equal(np.frombuffer(answer[0], np.float32), tensor)
    assert psutil.Process(toy.process.pid).memory_info().rss - before < MAX_GROWTH_BYTES


def say(server: ServerProcess, *pieces: bytes, timeout_s: float = 1.0) -> bytes:
    """Send some bytes and listen for a moment."""
    with raw_http2.connection(server.endpoint) as raw:
        try:
            for piece in pieces:
                raw.sendall(piece)
        except OSError:
            pass  # it has hung up on us, which is its right
        return raw_http2.read_until_closed(raw, timeout_s)


def test_random_bytes(server: ServerProcess) -> None:
    rng = random.Random(1)
    for size in (1, 8, 9, 24, 100, 5000, 1_000_000):
        say(server, rng.randbytes(size), timeout_s=0.2)


@pytest.mark.parametrize(
    "text",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-a\r\n",
        b"\0" * 64,
    ],
    ids=["http", "tls", "ssh", "zeros"],
)
def test_other_protocols(server: ServerProcess, text: bytes) -> None:
    say(server, text)


def test_half_a_preface(server: ServerProcess) -> None:
    for end in (1, 10, 23):
        say(server, raw_http2.PREFACE[:end], timeout_s=0.1)
    say(server, raw_http2.PREFACE, b"\0\0", timeout_s=0.1)


@pytest.mark.parametrize("token", [None, "wrong", TOKEN])
def test_messages_that_claim_to_be_huge(server: ServerProcess, token: str | None) -> None:
    with ExitStack() as stack:
        raws = []
        for size in (0xFFFFFFFF, (1 << 30) + 1, 1 << 30, 0x7FFFFFFF):
            raws.append(stack.enter_context(raw_http2.connection(server.endpoint)))
            call = raw_http2.headers("Push", token)
            raws[-1].sendall(raw_http2.settings() + call + raw_http2.body(b"x" * 1000, size, flags=0))
        for raw in raws:
            raw.settimeout(LIMIT_S)
            assert raw.recv(2) == b"\0\0"  # a frame of its own: it understood us so far
        raw_http2.read_until_closed(raws[-1], 1.0)  # a moment in which it could make room for all of them


def test_frames_without_sense(server: ServerProcess) -> None:
    rng = random.Random(2)
    for _ in range(50):
        frames = [
            raw_http2.frame(rng.randrange(12), rng.randrange(256), rng.randrange(9), rng.randbytes(20))
            for _ in range(20)
        ]
        say(server, raw_http2.settings(), *frames, timeout_s=0.02)


def test_headers_without_end(server: ServerProcess) -> None:
    block = b"".join(b"\x00" + bytes([7]) + b"x-%05d" % number + bytes([100]) + b"y" * 100 for number in range(10_000))
    pieces = [block[start : start + 16000] for start in range(0, len(block), 16000)]
    first = raw_http2.frame(raw_http2.HEADERS, 0, 1, pieces[0])
    say(server, raw_http2.settings(), first, *(raw_http2.frame(9, 0, 1, piece) for piece in pieces[1:]), timeout_s=0.2)


def test_slow_callers_do_not_keep_others_waiting(server: ServerProcess) -> None:
    """Connections that are opened and never finished: a preface, a call without a body, half a body."""
    beginnings = [
        raw_http2.PREFACE[:5],
        raw_http2.settings(),
        raw_http2.settings() + raw_http2.headers("Push", None),
        raw_http2.settings() + raw_http2.headers("Push", TOKEN),
        raw_http2.settings() + raw_http2.headers("Push", TOKEN) + raw_http2.body(b"half", 1000, flags=0),
    ]
    with ExitStack() as stack:
        open_connections: list[socket.socket] = []
        for number in range(50):
            raw = stack.enter_context(raw_http2.connection(server.endpoint))
            raw.sendall(beginnings[number % len(beginnings)])
            open_connections.append(raw)
        with reached(server.endpoint) as transport:
            for byte in raw_http2.PREFACE[5:20]:
                transport.call("Push", ps_pb2.PushRequest.Header(), (), LIMIT_S).result(LIMIT_S)
                for raw in open_connections[::5]:
                    raw.sendall(bytes([byte]))


@pytest.mark.parametrize("method", wire.METHODS)
def test_garbage_with_the_token(server: ServerProcess, method: str) -> None:
    rng = random.Random(method)
    valid = wire.encode(f"{method}Request", getattr(ps_pb2, f"{method}Request").Header(), [b"x" * 40])
    garbage = [b"\xff" * 40, b"\x12\xff\xff\xff\xff\x0f", b"\x0a\x7f", b"\x12\x00" * 200_000, b"\x0b" * 100]
    for _ in range(30):
        place = rng.randrange(len(valid))
        garbage += [rng.randbytes(place + 1), valid[:place] + rng.randbytes(3) + valid[place + 3 :]]
    allowed = {grpc.StatusCode.OK, grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED}
    if method == "Leave":
        garbage = garbage[:5]  # what is understood ends the toy
    with grpc.insecure_channel(str(server.endpoint)) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{wire.SERVICE}/{method}")
        calls = [call.future(data, timeout=LIMIT_S, metadata=((TOKEN_KEY, TOKEN),)) for data in garbage]
        for number, started in enumerate(calls):
            code, details = status_of(started.exception(LIMIT_S))
            assert code in allowed
            assert number >= 5 or f"not a {method}Request" in details


def test_methods_that_do_not_exist(server: ServerProcess) -> None:
    with grpc.insecure_channel(str(server.endpoint)) as channel:
        for path in (f"/{wire.SERVICE}/Nothing", "/Nothing", f"/{wire.SERVICE}/", "/grpc.health.v1.Health/Nothing"):
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
            for token, code in ((TOKEN, grpc.StatusCode.UNIMPLEMENTED), ("no", grpc.StatusCode.UNAUTHENTICATED)):
                error = call.future(b"", timeout=LIMIT_S, metadata=((TOKEN_KEY, token),)).exception(LIMIT_S)
                assert status_of(error)[0] is code
