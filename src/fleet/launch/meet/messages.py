"""What launchers say to each other: JSON objects, one a line."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet import net
from fleet.errors import CommunicationError
from fleet.net import Endpoint

PROTOCOL = "fleetrun/5"
MAX_LINE_BYTES = 1 << 20
_MAX_AGE_S = 1e9


@dataclass(frozen=True)
class Offer:
    """What one machine brings to the job."""

    host: str
    servers: tuple[Endpoint, ...]
    workers: tuple[Endpoint, ...]
    master: Endpoint | None
    terms: str
    """What must be the same on every machine, in words."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {
            "host": self.host,
            "servers": [str(endpoint) for endpoint in self.servers],
            "workers": [str(endpoint) for endpoint in self.workers],
            "master": None if self.master is None else str(self.master),
            "terms": self.terms,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Offer:
        """Read what another launcher sent; CommunicationError if it is not an offer."""
        try:
            return cls(
                host=net.parse_host(data["host"]),
                servers=tuple(Endpoint.parse(text) for text in data["servers"]),
                workers=tuple(Endpoint.parse(text) for text in data["workers"]),
                master=None if data["master"] is None else Endpoint.parse(data["master"]),
                terms=str(data["terms"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CommunicationError(f"not an offer of fleetrun: {error}") from error


@dataclass(frozen=True)
class NodeFailed:
    """A process of a machine failed, or the machine is gone."""

    what: str
    code: int
    began_at: float
    """When, by this machine's clock: the earliest of several is the cause."""
    is_final: bool = False
    """The user stopped it: the job is not to be started again."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        # How long ago, not when: machines need not agree on the time.
        age_s = time.time() - self.began_at
        return {"say": "failed", "what": self.what, "code": self.code, "age_s": age_s, "is_final": self.is_final}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeFailed:
        """Read what another launcher sent; what is odd about it must not hide that something failed."""
        code, age_s = data.get("code"), data.get("age_s")
        if not (isinstance(age_s, int | float) and 0 <= age_s < _MAX_AGE_S):
            age_s = 0.0
        return cls(
            what=str(data.get("what")),
            code=code if isinstance(code, int) and 0 < code < 256 else 1,
            began_at=time.time() - age_s,
            is_final=data.get("is_final") is True,
        )


@dataclass(frozen=True)
class AllDone:
    """The workers of every machine have finished."""


@dataclass(frozen=True)
class Regroup:
    """Everybody stops and meets again, though nothing failed: a machine has come."""

    why: str


class JobOverError(CommunicationError):
    """There is no other round; `code` is what to exit with, None for that of the last round."""

    def __init__(self, reason: str, code: int | None) -> None:
        super().__init__(reason)
        self.code = code


class HungUpError(CommunicationError):
    """The other side has closed the connection, or its process has ended."""


class CutOffError(CommunicationError):
    """The connection broke; that says nothing about the other side."""


class MessageLine:
    """A connection that carries one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._heard = b""
        self._sending = threading.Lock()

    def send(self, **message: Any) -> None:
        """Send one message; a connection that is gone is noticed by the reader, not here."""
        with contextlib.suppress(OSError), self._sending:
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def is_ready(self, timeout_s: float) -> bool:
        """Whether `receive` has something to read, be it the end, after waiting this long for it."""
        if b"\n" in self._heard:
            return True
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(1000 * timeout_s))

    def receive(self) -> dict[str, Any]:
        """The next message; CommunicationError if the connection ends or what comes is not one."""
        while b"\n" not in self._heard:
            chunk = self._read()
            self._heard += chunk
            if not chunk or len(self._heard) > MAX_LINE_BYTES:
                raise CommunicationError("not a message of fleetrun") if self._heard else HungUpError("it hung up")
        text, _, self._heard = self._heard.partition(b"\n")
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CommunicationError(str(error)) from error
        if not isinstance(message, dict):
            raise CommunicationError("not a message of fleetrun")
        return message

    def _read(self) -> bytes:
        try:
            return self.socket.recv(1 << 16)
        except ConnectionError as error:
            raise HungUpError(str(error)) from error
        except OSError as error:
            raise CutOffError(str(error)) from error

    def shut(self) -> None:
        """End the conversation; whoever waits in `is_ready` or `receive` wakes."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection; nobody waits for it any more."""
        self.shut()
        self.socket.close()
