"""The meeting point while machines arrive: never blocks on one visitor, and forgets those who leave again."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from dataclasses import dataclass
from typing import Any

from fleet.errors import CommunicationError
from fleet.launch.job_token import JobToken, is_nonce, new_nonce
from fleet.launch.messages import MAX_LINE_BYTES, Offer

PROTOCOL = "fleetrun/3"
_HELLO_S = 5.0


@dataclass
class _Visitor:
    """A connection that has not been admitted yet, or has."""

    socket: socket.socket
    deadline: float
    heard: bytes = b""
    hello: dict[str, Any] | None = None
    """Its first message, kept while it proves that it knows the token."""
    challenge: str = ""
    rank: int | None = None
    offer: Offer | None = None


@dataclass(frozen=True)
class Guest:
    """A launcher that was admitted."""

    socket: socket.socket
    session: str
    """Names the conversation, for seals; empty where no token was given."""


class Lobby:
    """Admits launchers that fit the job until there are as many as it needs.

    Where the user gave a token, a launcher must first prove that it has the same, and learns nothing of the job before.
    """

    def __init__(self, listener: socket.socket, num_nodes: int, own_rank: int, own: Offer, token: JobToken) -> None:
        self._listener = listener
        self._num_nodes = num_nodes
        self._own_rank = own_rank
        self._own = own
        self._token = token
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

    def close(self) -> tuple[tuple[Offer, ...], dict[int, Guest]]:
        """The offers by rank, and the other machines' launchers; ranks not asked for go by arrival."""
        offers = {self._own_rank: self._own}
        guests: dict[int, Guest] = {}
        free = iter(sorted(set(range(self._num_nodes)) - {self._own_rank, *(one.rank for one in self._admitted)}))
        for visitor in self._admitted:
            rank = visitor.rank if visitor.rank is not None else next(free)
            assert visitor.offer is not None
            offers[rank], guests[rank] = visitor.offer, Guest(visitor.socket, _session(visitor))
        for visitor in list(self._visitors):
            if visitor.offer is None:
                self._drop(visitor)
        self._selector.close()
        for guest in guests.values():
            guest.socket.setblocking(True)
        return tuple(offers[rank] for rank in range(self._num_nodes)), guests

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
            message = _read_message(visitor)
            if visitor.hello is None:
                visitor.hello = message
                complaint = self._one_sided_token(message)
                if complaint is None and self._token.is_given:
                    visitor.challenge = new_nonce()
                    self._say(visitor, say="prove", challenge=visitor.challenge)
                    return
            else:
                complaint = self._check_proof(visitor, message)
            complaint = complaint or self._judge(visitor, visitor.hello)
        except CommunicationError:
            self._drop(visitor)
            return
        if complaint is None:
            self._say(visitor, say="welcome")
        else:
            self._say(visitor, error=complaint)
            self._drop(visitor)

    def _one_sided_token(self, hello: dict[str, Any]) -> str | None:
        if (hello.get("nonce") is not None) == self._token.is_given:
            return None
        has, lacks = (
            ("the meeting point", "this machine") if self._token.is_given else ("this machine", "the meeting point")
        )
        return f"FLEET_JOB_TOKEN is set on {has} but not on {lacks}; set the same on every machine"

    def _check_proof(self, visitor: _Visitor, message: dict[str, Any]) -> str | None:
        assert visitor.hello is not None
        if self._token.fits(message.get("proof"), "guest", _session(visitor), visitor.hello):
            return None
        return "FLEET_JOB_TOKEN is not the one of the meeting point; set the same on every machine"

    def _judge(self, visitor: _Visitor, hello: dict[str, Any]) -> str | None:
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


def _session(visitor: _Visitor) -> str:
    """Both sides have said a part of it, so neither can be made to repeat an old conversation."""
    assert visitor.hello is not None
    return visitor.challenge + (visitor.hello.get("nonce") or "")


def _read_message(visitor: _Visitor) -> dict[str, Any]:
    """Take what a visitor has said; CommunicationError if it is not a launcher."""
    try:
        message = json.loads(visitor.heard)
    except (ValueError, RecursionError) as error:
        raise CommunicationError(str(error)) from error
    visitor.heard = b""
    if not isinstance(message, dict) or message.get("protocol") != PROTOCOL:
        raise CommunicationError("not a fleetrun of this version")
    if message.get("nonce") is not None and not is_nonce(message["nonce"]):
        raise CommunicationError("not a nonce of fleetrun")
    return message
