"""What strangers, and workers that have lost their mind, send to a server's data plane: it answers others as before."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from fleet.ps.proto import ps_pb2
from fleet.ps.server import plane_server
from fleet.ps.wire import messages as wire
from support.plane.plane import served
from support.plane.plane_place import KEYS, Place
from support.plane.raw_plane import (
    AHEAD,
    BLOCK,
    ERROR,
    HEAD,
    HELLO,
    JOIN,
    LIMIT_S,
    MAGIC,
    PULL,
    PUSH,
    REPLY,
    REQUEST,
    ahead,
    exactly,
    head,
    hello,
    join,
    read,
)
from support.processes import wait_until
from support.serving.serving import TOKEN

HELLO_S = 0.3
TLS_HELLO_S = 1.0  # a handshake has to find its place in it
BLOCK_BYTES = 1 << 16
F_ADD_SEALS, SHRINK = 1033, 2


@pytest.fixture(params=["SHM", "TCP", "TLS"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from opened(request.param, monkeypatch)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from opened("SHM", monkeypatch)


def opened(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(plane_server, "HELLO_S", HELLO_S if kind != "TLS" else TLS_HELLO_S)
    with served(kind) as one:
        found = Place(one, kind)
        files = num_files()
        yield found
        found.check()
        wait_until(lambda: found.counts()["connections"] == 1, LIMIT_S, "the end of all other connections")
        wait_until(lambda: num_files() <= files, LIMIT_S, "the end of their files")


def num_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_dropped(raw: socket.socket) -> bool:
    """Whether it hangs up, maybe after some last words, before the time of the socket is over."""
    try:
        while raw.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:  # it does not wait for what we still had to say
        pass
    return True


def memory(size: int = BLOCK_BYTES, *, seals: int = SHRINK) -> int:
    made = os.memfd_create("block", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(made, size)
    if seals:
        fcntl.fcntl(made, F_ADD_SEALS, seals)
    return made


def send_file(raw: socket.socket, file: int, text: bytes) -> None:
    try:
        socket.send_fds(raw, [text], [file])
    finally:
        os.close(file)


def send_block(raw: socket.socket, file: int, size: int = BLOCK_BYTES, number: int = 1) -> None:
    send_file(raw, file, head(BLOCK, size, block=number))


@pytest.mark.parametrize(
    ("token", "what"), [("", "no token"), ("wrong", "another token"), (TOKEN + "x", "another tok")]
)
def test_a_wrong_token(place: Place, token: str, what: str, caplog: pytest.LogCaptureFixture) -> None:
    before = place.counts()["refused"]
    with place.raw() as raw:
        raw.sendall(hello(token) + head(REQUEST, 4, method=PULL) + b"abcd")
        kind, code, text = read(raw)
        assert (kind, code) == (ERROR, 16)
        assert what in text.decode()
        assert is_dropped(raw)
    wait_until(lambda: place.counts()["refused"] == before + 1, LIMIT_S, "the count")
    who = "this machine" if place.kind == "SHM" else "127.0.0.1"
    wait_until(lambda: f"refused a call from {who}, which has {what}" in caplog.text, LIMIT_S, "the log")


@pytest.mark.parametrize(
    "beginning",
    [
        head(REQUEST, 10, method=PULL) + b"x" * 10,
        head(BLOCK, 4096, block=1),
        head(HELLO, 1 << 40),
        head(HELLO, 4097),
        b"\0" * 40,
        HEAD.pack(MAGIC + 1, HELLO, 0, 0, 0, 0, 0, 0),
        b"GET / HTTP/1.1\r\nHost: somebody-who-means-another-port\r\n\r\n",
    ],
    ids=["request", "block", "huge", "over", "zeros", "magic", "http"],
)
def test_whoever_does_not_say_hello(place: Place, beginning: bytes) -> None:
    with place.raw() as raw:
        raw.sendall(beginning)
        assert is_dropped(raw)


def test_random_bytes(place: Place) -> None:
    rng = random.Random(1)
    for number in range(200):
        with place.raw(is_welcome=number % 2 == 1) as raw, suppress(OSError):
            raw.sendall(rng.randbytes(rng.choice((1, 39, 40, 41, 500, 100_000))))
    place.check()


def test_half_a_hello_and_silence(place: Place) -> None:
    """They are dropped after a while, and hold up nobody meanwhile."""
    with place.raw() as silent, place.raw() as half, place.raw() as slow:
        half.sendall(hello()[:20])
        slow.sendall(hello()[:-1])
        place.check()
        assert is_dropped(silent)
        assert is_dropped(half)
        assert is_dropped(slow)


def test_who_is_welcome_may_be_silent(place: Place) -> None:
    with place.raw(is_welcome=True) as raw:
        raw.sendall(head(REQUEST, 100, method=PULL) + b"half")
        raw.settimeout(plane_server.HELLO_S + HELLO_S)
        with pytest.raises(TimeoutError):
            raw.recv(1)


def test_who_stops_in_the_middle_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a request, and before it has read its answers; whoever has nothing to say stays."""
    monkeypatch.setattr(plane_server, "SILENCE_S", 0.3)
    with served("TCP") as one:
        place = Place(one, "TCP")
        keys = np.arange(200_000, dtype=np.int64)
        header = ps_pb2.PullRequest.Header(caller=place.caller, tables=[0])
        request = wire.encode("PullRequest", header, [keys])
        with (
            place.raw(is_welcome=True) as half,
            place.raw(is_welcome=True) as deaf,
            place.raw(is_welcome=True) as silent,
        ):
            half.sendall(head(REQUEST, 100, method=PULL) + b"half")
            deaf.settimeout(0.5)
            with suppress(OSError):
                for _ in range(10):
                    deaf.sendall(head(REQUEST, len(request), method=PULL) + request)
            assert is_dropped(half)
            wait_until(lambda: place.counts()["connections"] == 2, LIMIT_S, "the end of two")
            good = place.request()
            silent.sendall(head(REQUEST, len(good), method=PULL) + good)
            assert read(silent)[0] == REPLY
        place.check()


def test_answers_that_nobody_reads_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond are refused, to be asked for again; small ones always find room."""
    monkeypatch.setenv("FLEET_MEMORY_BUDGET", str(64 << 20))
    with served("TCP") as one:
        place = Place(one, "TCP")
        keys = np.arange(250_000, dtype=np.int64)
        header = ps_pb2.PullRequest.Header(caller=place.caller, tables=[0])
        request = wire.encode("PullRequest", header, [keys])
        with place.raw(is_welcome=True) as raw:
            sender = threading.Thread(
                target=raw.sendall, args=((head(REQUEST, len(request), method=PULL) + request) * 40,)
            )
            sender.start()
            sender.join(LIMIT_S)
            place.check()
            found = [read(raw) for _ in range(40)]
        assert {kind for kind, _, _ in found} == {REPLY, ERROR}
        texts = {(code, text) for kind, code, text in found if kind == ERROR}
        assert {code for code, _ in texts} == {8}
        assert all(b"FLEET_MEMORY_BUDGET" in text for _, text in texts)
        # One that is larger than all the room there is, by itself.
        with place.raw(is_welcome=True) as raw:
            raw.sendall(head(REQUEST, len(request), method=PULL) + request)
            assert read(raw)[0] == REPLY


@pytest.mark.parametrize(
    "bad",
    [
        hello(),
        head(REQUEST, (1 << 30) + 1, method=PULL),
        head(REQUEST, 1 << 63, method=PUSH),
        head(REQUEST, 10, method=0),
        head(REQUEST, 10, method=5),
        head(REQUEST, 10, method=PULL, block=5),
        head(BLOCK, 4096, block=1),
        head(REPLY, 0),
        head(99, 0),
        head(AHEAD, 0),
        head(AHEAD, (1 << 30) + 1),
        head(AHEAD, 1 << 63),
        ahead(0, b"x"),
        ahead(5, b"x") + ahead(5, b"y"),
        ahead(5, b"x") + ahead(4, b"y"),
        ahead((1 << 64) - 1, b"x") + ahead(1, b"y"),
        b"".join(ahead(number, b"x") for number in range(1, 1026)),
        head(JOIN, (1 << 30) + 1, method=PUSH),
        head(JOIN, 10, method=5),
        head(JOIN, 10, method=PUSH, parts=1025),
        head(JOIN, 10, method=PUSH, parts=(1 << 32) - 1),
        head(JOIN, 10, method=PUSH, block=1),
        ahead(1, b"x") + join(b"0123456789", (1, 10, 1), method=PUSH),
        ahead(1, b"x") + join(b"0123456789", (1, (1 << 64) - 1, 1), method=PUSH),
        ahead(1, b"x") + join(b"0123456789", (1, 1, (1 << 64) - 1), method=PUSH),
        ahead(1, b"x") + join(b"0123456789", (1, 1, 0), method=PUSH),
        ahead(1, b"xx") + ahead(2, b"xx") + join(b"0123456789", (1, 1, 2), (2, 2, 2), method=PUSH),
        ahead(1, b"xx") + ahead(2, b"xx") + join(b"0123456789", (1, 5, 2), (2, 1, 2), method=PUSH),
    ],
    ids=[
        *("hello", "large", "huge", "method 0", "method 5", "no block", "no file", "reply", "kind"),
        *("nothing ahead", "large ahead", "huge ahead", "number 0", "a number again", "a smaller number", "no number"),
        *("too many ahead", "large join", "join of what", "too many parts", "far too many parts", "join in a block"),
        *("beyond", "far beyond", "longer", "an empty part", "parts that overlap", "parts that go back"),
    ],
)
def test_heads_without_sense(place: Place, bad: bytes) -> None:
    with place.raw(is_welcome=True) as raw:
        raw.sendall(bad)
        assert is_dropped(raw)


def test_parts_that_are_joined(place: Place) -> None:
    """Wherever a request is cut, it is the same request."""
    good = place.request()
    rng = random.Random(5)
    with place.raw(is_welcome=True) as raw:
        number = 0
        for _ in range(50):
            cuts = sorted(rng.sample(range(len(good) + 1), 6))
            parts: list[tuple[int, int, int]] = []
            frames = b""
            for begin, end in zip(cuts[::2], cuts[1::2], strict=True):
                number += rng.randrange(1, 9)
                frames += ahead(number, good[begin:end], at=rng.randrange(parts[0][0] if parts else number))
                parts.append((number, begin, end - begin))
            raw.sendall(frames + join(good, *parts, at=rng.randrange(number + 10)))
            kind, _, text = read(raw)
            assert kind == REPLY
            assert len(wire.decode("PullReply", text)[1][0]) == 16 * len(KEYS)
        raw.sendall(ahead(number + 1, good) + join(good, (number + 1, 0, len(good))))
        assert read(raw)[0] == REPLY
        raw.sendall(join(good) + head(JOIN, 0, method=PULL))
        assert [read(raw)[0] for _ in range(2)] == [REPLY, ERROR]
    wait_until(lambda: place.counts()["ahead_bytes"] == 0, LIMIT_S, "the end of what was sent ahead")


def test_parts_that_are_not_there_are_asked_for_again(place: Place) -> None:
    """Unknown, used, dropped, of another size: the call is refused, the connection stays, and nothing is left."""
    good = place.request()
    with place.raw(is_welcome=True) as raw:
        cases = [
            (b"", 1, 0),
            (ahead(1, good[:7]), 1, 0),
            (ahead(2, good[:8]) + ahead(3, b"x", at=3), 2, 0),
            (ahead(4, good[:8]) + join(good, (4, 0, 8)), 4, 1),
            (ahead(5, good[:8]) + join(good, at=6), 5, 1),
        ]
        for text, number, num_others in cases:
            raw.sendall(text + join(good, (number, 0, 8)))
            *others, (kind, code, why) = sorted(read(raw) for _ in range(num_others + 1))  # they come in any order
            assert [each[0] for each in others] == [REPLY] * num_others
            assert (kind, code) == (ERROR, 8)
            assert b"sent again, in full" in why
            raw.sendall(head(REQUEST, len(good), method=PULL) + good)
            assert read(raw)[0] == REPLY
        raw.sendall(join(good, at=1 << 40))
        assert read(raw)[0] == REPLY
        assert place.counts()["ahead_bytes"] == 0


def test_parts_that_nobody_comes_for_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """In size, whoever sends them, and in time; who sends too much is served all the same."""
    monkeypatch.setenv("FLEET_MEMORY_BUDGET", str(64 << 20))
    monkeypatch.setattr(plane_server, "SILENCE_S", 0.3)
    bound = 64 << 20 >> 4  # a quarter is for messages, and a quarter of that for what is sent ahead of them
    with served("TCP") as one:
        place = Place(one, "TCP")
        with place.raw(is_welcome=True) as first, place.raw(is_welcome=True) as second:
            for raw in (first, second):
                for number in range(1, 9):
                    raw.sendall(ahead(number, b"x" * (1 << 20)))
                good = place.request()
                raw.sendall(head(REQUEST, len(good), method=PULL) + good)
                assert read(raw)[0] == REPLY
                assert place.counts()["ahead_bytes"] <= bound
            wait_until(lambda: place.counts()["ahead_bytes"] == 0, LIMIT_S, "their end")
            first.sendall(ahead(100, good) + join(good, (100, 0, len(good))))
            assert read(first)[0] == REPLY
            first.sendall(ahead(101, b"y" * 1000))
            wait_until(lambda: place.counts()["ahead_bytes"] >= 1000, LIMIT_S, "a part")
        wait_until(lambda: place.counts()["ahead_bytes"] == 0, LIMIT_S, "its end, with the connection")


def test_requests_without_sense_are_answered(place: Place) -> None:
    """Every prefix of a request, and every one with a byte changed, gets one answer; the connection stays."""
    good = place.request()
    rng = random.Random(3)
    bad = [good[:size] for size in range(len(good))]
    bad += [good[:at] + bytes([rng.randrange(256)]) + good[at + 1 :] for at in range(len(good))]
    with place.raw(is_welcome=True) as raw:
        raw.sendall(b"".join(head(REQUEST, len(one), method=PULL, call=n) + one for n, one in enumerate(bad)))
        kinds = [read(raw)[0] for _ in bad]
        assert set(kinds) == {REPLY, ERROR}
        raw.sendall(head(REQUEST, len(good), method=PULL) + good)
        assert read(raw)[0] == REPLY


@pytest.mark.parametrize(
    ("size", "seals", "told"),
    [
        (BLOCK_BYTES, 0, BLOCK_BYTES),
        (BLOCK_BYTES - 4096, SHRINK, BLOCK_BYTES),
        (BLOCK_BYTES, SHRINK, BLOCK_BYTES - 4096),
        (0, SHRINK, 0),
        (BLOCK_BYTES, SHRINK | 8, BLOCK_BYTES),
        (4096, SHRINK, (1 << 32) + 4096),
    ],
    ids=["unsealed", "small", "large", "empty", "cannot be written", "huge"],
)
def test_blocks_that_cannot_be_trusted(shared: Place, size: int, seals: int, told: int) -> None:
    with shared.raw(is_welcome=True) as raw:
        send_block(raw, memory(size, seals=seals), told)
        assert is_dropped(raw)


def test_files_that_are_no_memory(shared: Place) -> None:
    for path in ("/dev/null", "/proc/self/exe", "/"):
        with shared.raw(is_welcome=True) as raw:
            send_block(raw, os.open(path, os.O_RDONLY))
            assert is_dropped(raw)


def test_files_for_nothing(shared: Place) -> None:
    """Files that come along with other heads, or before anybody is welcome, are not kept."""
    with shared.raw() as raw:
        send_file(raw, memory(), hello())
        assert is_dropped(raw)
    with shared.raw(is_welcome=True) as raw, suppress(OSError):
        good = shared.request()
        for _ in range(100):
            send_file(raw, memory(), head(REQUEST, len(good), method=PULL) + good)
        assert is_dropped(raw)


def test_requests_in_blocks(shared: Place) -> None:
    good = shared.request()
    with shared.raw(is_welcome=True) as raw:
        file = memory()
        os.pwrite(file, good, 0)
        kept = os.dup(file)
        send_block(raw, file)
        # Room for the answer where there is none: it comes by the socket.
        for at in (0, 1, len(good) + 1, BLOCK_BYTES, BLOCK_BYTES - 8, 1 << 40, (1 << 64) - 8):
            raw.sendall(head(REQUEST, len(good), method=PULL, block=1, at=at))
            kind, _, text = read(raw)
            assert kind == REPLY
            assert len(wire.decode("PullReply", text)[1][0]) == 16 * len(KEYS)
        raw.sendall(head(REQUEST, len(good), method=PULL, block=1, at=4096))
        _, kind, _, _, size, at, block, _ = HEAD.unpack(exactly(raw, HEAD.size))
        assert (kind, at, block) == (REPLY, 4096, 1)
        assert len(wire.decode("PullReply", os.pread(kept, size, at))[1][0]) == 16 * len(KEYS)
        os.close(kept)
        raw.sendall(head(REQUEST, BLOCK_BYTES + 1, method=PULL, block=1))
        assert is_dropped(raw)


def test_more_blocks_than_a_worker_needs(shared: Place) -> None:
    with shared.raw(is_welcome=True) as raw, suppress(OSError):
        for number in range(1, 300):
            send_block(raw, memory(4096), 4096, number)
        assert is_dropped(raw)


def test_connections_that_come_and_go(place: Place) -> None:
    for number in range(200 if place.kind == "TLS" else 2000):  # Python shakes hands slowly
        with place.raw() as raw, suppress(OSError):
            if number % 3 == 1:
                raw.sendall(hello())
            elif number % 3 == 2:
                raw.sendall(hello()[:30])
        if number % 500 == 0:
            place.check()


def test_a_reader_that_never_reads(place: Place) -> None:
    """Its answers wait in the server; nobody else waits for them."""
    keys = np.arange(50_000, dtype=np.int64)
    header = ps_pb2.PullRequest.Header(caller=place.caller, tables=[0])
    request = wire.encode("PullRequest", header, [keys])
    with place.raw(is_welcome=True) as raw:
        for number in range(40):
            raw.sendall(head(REQUEST, len(request), method=PULL, call=number) + request)
        place.check()
        for _ in range(40):
            kind, _, text = read(raw)
            assert kind == REPLY
            assert len(text) > 16 * len(keys)


def test_no_more_connections_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane_server, "MAX_CONNECTIONS", 16)
    with served("SHM") as one:
        found = Place(one, "SHM")
        made = [found.raw(is_welcome=False) for _ in range(30)]
        raws = [each.__enter__() for each in made]
        try:
            wait_until(lambda: found.counts()["refused"] == 15, LIMIT_S, "refusals")
            found.check()
        finally:
            for each in made:
                each.__exit__(None, None, None)
        assert len(raws) == 30
        wait_until(lambda: found.counts()["connections"] == 1, LIMIT_S, "their end")
        with found.raw(is_welcome=True):
            pass
