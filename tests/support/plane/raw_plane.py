"""The data plane byte by byte, for what no client of ours would send: see csrc/plane/frame.h."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from fleet.net import Endpoint
from fleet.ps.wire.plane_client import plane_name
from fleet.ps.wire.trust.tls import Tls
from support.serving.serving import TOKEN

LIMIT_S = 30.0
HEAD = struct.Struct("<IHHQQQII")
MAGIC = 0x31504C46
PART = struct.Struct("<QQQ")
HELLO, WELCOME, BLOCK, REQUEST, REPLY, ERROR, AHEAD, JOIN = range(1, 9)
PULL, PUSH = 1, 2


def head(
    kind: int, size: int = 0, *, method: int = 0, call: int = 1, at: int = 0, block: int = 0, parts: int = 0
) -> bytes:
    """The head of a frame."""
    return HEAD.pack(MAGIC, kind, method, call, size, at, block, parts)


def ahead(number: int, data: bytes, *, at: int = 0) -> bytes:
    """Bytes of a message to come."""
    return head(AHEAD, len(data), call=number, at=at) + data


def join(message: bytes, *parts: tuple[int, int, int], method: int = 1, at: int = 0) -> bytes:
    """A message of which some parts, (number, begin, size), were sent ahead."""
    rest, end = b"", 0
    for _, begin, size in parts:
        rest, end = rest + message[end:begin], begin + size
    listed = b"".join(PART.pack(*part) for part in parts)
    return head(JOIN, len(message), method=method, at=at, parts=len(parts)) + listed + rest + message[end:]


def hello(token: str = TOKEN) -> bytes:
    """What a client says first."""
    return head(HELLO, len(token)) + token.encode()


@contextmanager
def connection(
    endpoint: Endpoint, port: int = 0, *, is_welcome: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[socket.socket]:
    """A connection by the server's name on this machine, or to its port; `is_welcome`: with the token said."""
    with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as plain:
        plain.settimeout(LIMIT_S)
        plain.connect((endpoint.host, port) if port else "\0" + plane_name(endpoint.host, endpoint.port))
        if port:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with nullcontext(plain) if tls is None else tls.wrap_socket(plain, server_hostname="fleet-job") as made:
            if is_welcome:
                made.sendall(hello())
                assert read(made)[0] == WELCOME
            yield made


def context_of(tls: Tls, *, shows: bool = True) -> ssl.SSLContext:
    """For a client of Python's own that shows a certificate, or none, and asks for that of the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=tls.authority.decode())
    if shows:
        tls.load_into(context)
    return context


def read(raw: socket.socket) -> tuple[int, int, bytes]:
    """The kind, the code or method, and the bytes behind the next head."""
    text = exactly(raw, HEAD.size)
    magic, kind, method, _, size, _, block, _ = HEAD.unpack(text)
    assert magic == MAGIC
    return kind, method, b"" if block else exactly(raw, size)


def exactly(raw: socket.socket, size: int) -> bytes:
    """So many bytes."""
    found = b""
    while len(found) < size:
        part = raw.recv(size - len(found))
        assert part, "it has hung up"
        found += part
    return found
