"""The meeting point while machines arrive: never blocks on one visitor, and forgets those who leave again."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from dataclasses import dataclass

from fleet.errors import CommunicationError
from fleet.launch.messages import MAX_LINE_BYTES, Offer

PROTOCOL = "fleetrun/2"
_HELLO_S = 5.0


@dataclass
class _Visitor:
    """A connection that has not been admitted yet, or has."""

    socket: socket.socket
    deadline: float
    heard: bytes = b""
    rank: int | None = None
    offer: Offer | None = None


class Lobby:
    """Admits launchers that fit the job until there are as many as it needs."""

    def __init__(self, listener: socket.socket, num_nodes: int, own_rank: int, own: Offer) -> None:
        self._listener = listener
        self._num_nodes = num_nodes
        self._own_rank = own_rank
        self._own = own
        self._visitors: list[_Visitor] = []
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    @property
    def _admitted(self) -> list[_Visitor]:
        return [visitor for visitor in self._visitors if visitor.offer is not None]

    @property
    def num_missing(self) -> int:
        return self._num_nodes - 1 - len(self._admitted)

    def is_complete(self) -> bool:
        """Whether all machines are here, now: those who left again are forgotten first."""
        if self.num_missing == 0:
            self.serve(timeout_s=0)
        return self.num_missing == 0

    def serve(self, timeout_s: float) -> None:
        """Let in who comes, read who speaks, drop who leaves, for at most about `timeout_s`."""
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                with contextlib.suppress(OSError):
                    self._let_in(self._listener.accept()[0])
            else:
                self._read(key.data)
        for visitor in [one for one in self._visitors if one.offer is None and time.monotonic() > one.deadline]:
            self._drop(visitor)

    def dismiss(self, reason: str) -> None:
        """The meeting is off: tell everybody why."""
        for visitor in list(self._visitors):
            self._say(visitor, error=reason)
            self._drop(visitor)
        self._selector.close()

    def close(self) -> tuple[tuple[Offer, ...], dict[int, socket.socket]]:
        """The offers by rank, and the connections of the other machines; ranks not asked for go by arrival."""
        offers = {self._own_rank: self._own}
        sockets: dict[int, socket.socket] = {}
        free = iter(sorted(set(range(self._num_nodes)) - {self._own_rank, *(one.rank for one in self._admitted)}))
        for visitor in self._admitted:
            rank = visitor.rank if visitor.rank is not None else next(free)
            assert visitor.offer is not None
            offers[rank], sockets[rank] = visitor.offer, visitor.socket
        for visitor in list(self._visitors):
            if visitor.offer is None:
                self._drop(visitor)
        self._selector.close()
        for connection in sockets.values():
            connection.setblocking(True)
        return tuple(offers[rank] for rank in range(self._num_nodes)), sockets

    def _let_in(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        visitor = _Visitor(connection, time.monotonic() + _HELLO_S)
        self._visitors.append(visitor)
        self._selector.register(connection, selectors.EVENT_READ, visitor)

    def _drop(self, visitor: _Visitor) -> None:
        self._visitors.remove(visitor)
        self._selector.unregister(visitor.socket)
        visitor.socket.close()

    def _read(self, visitor: _Visitor) -> None:
        try:
            chunk = visitor.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        visitor.heard += chunk
        if not chunk or visitor.offer is not None or len(visitor.heard) > MAX_LINE_BYTES:
            self._drop(visitor)  # gone, or speaking out of turn
        elif visitor.heard.endswith(b"\n"):
            self._answer(visitor)

    def _answer(self, visitor: _Visitor) -> None:
        """Admit a launcher of this job; tell another one what differs; drop what is not a launcher."""
        try:
            complaint = self._judge(visitor)
        except CommunicationError:
            self._drop(visitor)
            return
        if complaint is None:
            self._say(visitor, say="welcome")
        else:
            self._say(visitor, error=complaint)
            self._drop(visitor)

    def _judge(self, visitor: _Visitor) -> str | None:
        try:
            hello = json.loads(visitor.heard)
        except (ValueError, RecursionError) as error:
            raise CommunicationError(str(error)) from error
        if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
            raise CommunicationError("not a fleetrun of this version")
        offer = Offer.from_json(hello.get("offer") or {})
        rank = hello.get("rank")
        taken = {self._own_rank: self._own.host}
        taken |= {one.rank: one.offer.host for one in self._admitted if one.rank is not None and one.offer is not None}
        if hello.get("nnodes") != self._num_nodes:
            theirs = hello.get("nnodes")
            return f"this machine expects {theirs} machines, the meeting point {self._num_nodes}; make them equal"
        if offer.terms != self._own.terms:
            own = self._own.terms
            return f"this machine was started with {offer.terms}, the meeting point with {own}; make them equal"
        if rank is not None and (type(rank) is not int or not 0 <= rank < self._num_nodes):
            return f"--rank {rank} does not fit {self._num_nodes} machines"
        if rank in taken:
            return f"--rank {rank} is taken by {taken[rank]}; give each machine its own rank"
        if self.num_missing == 0:
            return f"all {self._num_nodes} machines are here already"
        visitor.rank, visitor.offer = rank, offer
        return None

    def _say(self, visitor: _Visitor, **message: str) -> None:
        with contextlib.suppress(OSError):
            visitor.socket.sendall(json.dumps({"protocol": PROTOCOL, **message}).encode() + b"\n")
