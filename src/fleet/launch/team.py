"""The launchers of a job's machines, joined by open connections, so that they fail together and end together.

`done` says that a machine's workers have finished, `failed` that one of its processes failed; a connection that
closes before the end says that a machine is gone. So no machine waits for one that will not come back. The host relays:
every other launcher (a guest) has one connection, to the host. `Team` itself is the team of a single machine.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from fleet import net
from fleet.errors import CommunicationError
from fleet.net import Endpoint

MAX_LINE_BYTES = 1 << 20


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

    def to_json(self) -> dict[str, Any]:
        # How long ago, not when: machines need not agree on the time.
        return {"say": "failed", "what": self.what, "code": self.code, "age_s": time.time() - self.began_at}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeFailed:
        """Read what another launcher sent; what is odd about it must not hide that something failed."""
        code, age_s = data.get("code"), data.get("age_s")
        return cls(
            what=str(data.get("what")),
            code=code if isinstance(code, int) and 0 < code < 256 else 1,
            began_at=time.time() - (age_s if isinstance(age_s, int | float) else 0.0),
        )


@dataclass(frozen=True)
class AllDone:
    """The workers of every machine have finished."""


class Line:
    """A connection that carries one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._file = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, **message: Any) -> None:
        """Send one message; a connection that is gone is noticed by the reader, not here."""
        with contextlib.suppress(OSError), self._sending:
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message; CommunicationError if the connection ends or what comes is not one."""
        try:
            text = self._file.readline(MAX_LINE_BYTES)
            message = json.loads(text) if text.endswith(b"\n") else None
        except (OSError, ValueError, RecursionError) as error:
            raise CommunicationError(str(error)) from error
        if not isinstance(message, dict):
            raise CommunicationError("not a message of fleetrun" if text else "the connection closed")
        return message

    def notice_dead_machines(self) -> None:
        """Let the kernel probe a silent connection, so that a machine without power is noticed within half a minute."""
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        # Probes are sent on a silent connection only; this limits how long sent data may stay unanswered.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self.socket.close()


class Team:
    """The launchers of a job, seen from one of them. This one is alone: all are done when it is."""

    def __init__(self, offers: tuple[Offer, ...] = (), node_index: int = 0) -> None:
        self.offers = offers
        self.node_index = node_index
        self._news: SimpleQueue[Any] = SimpleQueue()

    def listen(self, news: SimpleQueue[Any]) -> None:
        """From now on put AllDone, and NodeFailed for every failure elsewhere, into `news`."""
        self._news = news

    def done(self) -> None:
        """Tell the others that this machine's workers have finished."""
        self._news.put(AllDone())

    def failed(self, failure: NodeFailed) -> None:
        """Tell the others that a process of this machine failed."""

    def close(self) -> None:
        """Leave the team."""


class _ConnectedTeam(Team):
    """Reads every line in a thread of its own and turns what comes into news."""

    def __init__(self, offers: tuple[Offer, ...], node_index: int, lines: Mapping[int, Line]) -> None:
        super().__init__(offers, node_index)
        self._lines = dict(lines)
        self._is_over = threading.Event()
        """The job has ended, well or badly: from now on a connection may close."""
        self._readers: list[threading.Thread] = []

    def listen(self, news: SimpleQueue[Any]) -> None:
        super().listen(news)
        for node, line in self._lines.items():
            line.notice_dead_machines()
            reader = threading.Thread(target=self._read, args=(node, line), name=f"node-{node}", daemon=True)
            reader.start()
            self._readers.append(reader)

    def _read(self, node: int, line: Line) -> None:
        try:
            while True:
                self._hear(node, line.receive())
        except CommunicationError:
            if not self._is_over.is_set():
                where = f"machine {node} ({self.offers[node].host})"
                gone = NodeFailed(f"{where} is gone: its fleetrun ended or the network broke", 1, time.time())
                self._hear(node, gone.to_json())

    def _hear(self, node: int, message: dict[str, Any]) -> None:
        raise NotImplementedError

    def _tell(self, message: dict[str, Any], but: int | None = None) -> None:
        for node, line in self._lines.items():
            if node != but:
                line.send(**message)

    def failed(self, failure: NodeFailed) -> None:
        self._is_over.set()
        self._tell(failure.to_json())

    def close(self) -> None:
        self._is_over.set()
        for line in self._lines.values():
            line.close()
        for reader in self._readers:
            reader.join(timeout=5)


class GuestTeam(_ConnectedTeam):
    """A launcher whose one line goes to the host."""

    def __init__(self, offers: tuple[Offer, ...], node_index: int, host_index: int, line: Line) -> None:
        super().__init__(offers, node_index, {host_index: line})

    def done(self) -> None:
        self._tell({"say": "done"})

    def _hear(self, node: int, message: dict[str, Any]) -> None:  # noqa: ARG002
        if message.get("say") == "failed":
            self._is_over.set()
            self._news.put(NodeFailed.from_json(message))
        elif message.get("say") == "all done":
            self._is_over.set()
            self._news.put(AllDone())


class HostTeam(_ConnectedTeam):
    """The launcher at the meeting point: counts who is done and passes failures on."""

    def __init__(self, offers: tuple[Offer, ...], node_index: int, lines: Mapping[int, Line]) -> None:
        super().__init__(offers, node_index, lines)
        self._done: set[int] = set()
        self._lock = threading.Lock()

    def done(self) -> None:
        self._count(self.node_index)

    def _hear(self, node: int, message: dict[str, Any]) -> None:
        if message.get("say") == "done":
            self._count(node)
        elif message.get("say") == "failed":
            self._is_over.set()
            failure = NodeFailed.from_json(message)
            self._tell(failure.to_json(), but=node)
            self._news.put(failure)

    def _count(self, node: int) -> None:
        with self._lock:
            self._done.add(node)
            if len(self._done) < len(self.offers):
                return
        self._is_over.set()
        self._tell({"say": "all done"})
        self._news.put(AllDone())
