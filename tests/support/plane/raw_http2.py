"""HTTP/2 and gRPC frames written by hand, to say what no client library would say."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from fleet.net import Endpoint
from fleet.ps.wire.messages import SERVICE
from fleet.ps.wire.status import TOKEN_KEY

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4


@contextmanager
def connection(endpoint: Endpoint) -> Iterator[socket.socket]:
    """A connection that has said nothing yet."""
    with socket.create_connection((endpoint.host, endpoint.port), timeout=10) as raw:
        yield raw


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame, whatever sense it makes."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings() -> bytes:
    """What a client says first."""
    return PREFACE + frame(SETTINGS, 0, 0, b"")


def headers(method: str, token: str | None, stream: int = 1) -> bytes:
    """The beginning of a call."""
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/{SERVICE}/{method}"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *([(TOKEN_KEY, token)] if token else []),
    ]
    # Literal fields without indexing; every name and value here is shorter than 127.
    block = b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)
    return frame(HEADERS, END_HEADERS, stream, block)


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def body(message: bytes, size: int | None = None, stream: int = 1, flags: int = END_STREAM) -> bytes:
    """A message that claims to have `size` bytes."""
    return frame(DATA, flags, stream, struct.pack(">BI", 0, len(message) if size is None else size) + message)


def read_until_closed(raw: socket.socket, timeout_s: float) -> bytes:
    """What the other side says until it closes or the time is over."""
    raw.settimeout(timeout_s)
    said = b""
    try:
        while piece := raw.recv(65536):
            said += piece
    except OSError:
        pass
    return said
