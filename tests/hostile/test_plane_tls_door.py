"""Strangers at the data plane of a job that speaks TLS: whoever has not its certificate and its token gets nothing."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fleet.net import Endpoint
from fleet.ps.server import plane_server
from fleet.ps.wire.trust.tls import Tls
from support.certificates import minted
from support.plane.plane import served
from support.plane.plane_place import Place
from support.plane.raw_plane import ERROR, LIMIT_S, PULL, REQUEST, connection, context_of, head, hello, read
from support.processes import wait_until

HELLO_S = 1.0
OTHER = minted("of another job")


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(plane_server, "HELLO_S", HELLO_S)
    with served("TLS") as one:
        found = Place(one, "TLS")
        before = found.counts()["refused"]
        yield found
        found.check()
        assert found.counts()["tls_connections"] == 1, "the worker's own"
        wait_until(lambda: found.counts()["connections"] == 1, LIMIT_S, "the end of all strangers")
        assert found.counts()["refused"] > before


def tls_of(door: Place) -> Tls:
    assert door.served.tls is not None
    return door.served.tls


def endpoint(door: Place) -> Endpoint:
    assert door.served.grpc is not None
    return door.served.grpc.endpoint


def where(door: Place) -> tuple[str, int]:
    return endpoint(door).host, door.port


def said_until_the_end(raw: socket.socket) -> bytes:
    """All that comes before the other hangs up."""
    found = b""
    with suppress(OSError):
        while part := raw.recv(1 << 16):
            found += part
    return found


def client_hello(tls: Tls) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """A client whose bytes go through our hands; its first ones are ready."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = context_of(tls).wrap_bio(incoming, outgoing, server_hostname="fleet-job")
    with pytest.raises(ssl.SSLWantReadError):
        made.do_handshake()
    return made, incoming, outgoing


@pytest.mark.parametrize(
    "beginning",
    [
        hello() + head(REQUEST, 4, method=PULL) + b"abcd",
        b"\0" * 5000,
        b"\x16\x03\x01\xff\xff" + b"\x01" * 5000,
        b"\x16\x03\x01\x00\x05\x01\x00\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: somebody-who-means-another-port\r\n\r\n",
    ],
    ids=["plain client", "zeros", "huge record", "huge hello", "http"],
)
def test_who_speaks_no_tls(door: Place, beginning: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(where(door), LIMIT_S) as raw:
        with suppress(OSError):
            raw.sendall(beginning)
        assert len(said_until_the_end(raw)) <= 7, "more than an alert"
    if beginning[0] != 0x16:
        why = "refused a call from 127.0.0.1, which has no TLS that this server speaks"
        wait_until(lambda: why in caplog.text, LIMIT_S, "the log")


def test_half_a_handshake_and_silence(door: Place) -> None:
    """Such ones are dropped after a while, and hold up nobody meanwhile."""
    _, _, outgoing = client_hello(tls_of(door))
    first = outgoing.read()
    with (
        socket.create_connection(where(door), LIMIT_S) as silent,
        socket.create_connection(where(door), LIMIT_S) as half,
        socket.create_connection(where(door), LIMIT_S) as answered,
    ):
        half.sendall(first[:50])
        answered.sendall(first)
        assert answered.recv(1 << 16), "the server's part of the handshake"
        door.check()
        for raw in (silent, half, answered):
            said_until_the_end(raw)


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (context_of(Tls(OTHER.certificate, OTHER.key, minted().authority)), "a certificate of another authority"),
        (context_of(minted(), shows=False), "no certificate"),
    ],
    ids=["another authority", "no certificate"],
)
def test_who_has_no_certificate_of_the_job(
    door: Place, context: ssl.SSLContext, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    # By TLS 1.3 a client is done before its certificate is looked at; it learns of the refusal by its first read.
    with (
        suppress(ssl.SSLError, ConnectionError),
        connection(endpoint(door), door.port, is_welcome=True, tls=context),
    ):
        pytest.fail("it was welcome")
    wait_until(lambda: f"refused a call from 127.0.0.1, which has {text}" in caplog.text, LIMIT_S, "the log")


def test_who_does_not_trust_the_server(door: Place, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ssl.SSLCertVerificationError), connection(endpoint(door), door.port, tls=context_of(OTHER)):
        pass
    wait_until(lambda: "no trust in the certificate of this server" in caplog.text, LIMIT_S, "the log")


def test_a_wrong_token_inside_tls(door: Place, caplog: pytest.LogCaptureFixture) -> None:
    with connection(endpoint(door), door.port, tls=context_of(tls_of(door))) as raw:
        raw.sendall(hello("wrong"))
        kind, code, text = read(raw)
        assert (kind, code) == (ERROR, 16)
        assert "another token" in text.decode()
        assert said_until_the_end(raw) == b""
    wait_until(lambda: "127.0.0.1, which has another token" in caplog.text, LIMIT_S, "the log")


def test_older_tls(door: Place) -> None:
    context = context_of(tls_of(door))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)), connection(endpoint(door), door.port, tls=context):
        pass


@pytest.mark.parametrize("at", [0, 3, 30, -1])
def test_bytes_that_were_changed_on_their_way(door: Place, at: int) -> None:
    """Somebody between the two, after the handshake: not one byte of what follows is believed."""
    made, incoming, outgoing = client_hello(tls_of(door))
    with socket.create_connection(where(door), LIMIT_S) as raw:
        raw.sendall(outgoing.read())
        incoming.write(raw.recv(1 << 16))
        made.do_handshake()
        raw.sendall(outgoing.read())
        made.write(hello())
        changed = bytearray(outgoing.read())
        changed[at] ^= 0x40
        with suppress(OSError):
            raw.sendall(changed)
            if at == 3:  # it waits for a longer record
                raw.sendall(b"\0" * 20000)
        incoming.write(said_until_the_end(raw))
        with pytest.raises((ssl.SSLError, OSError)):
            made.read(1)
