"""The door of the meeting point: hears who knocks, lets in who belongs to the job, and never blocks on one visitor."""

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import CommunicationError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet.guest import Guest, say
from fleet.launch.meet.job_token import JobToken, is_nonce, new_nonce
from fleet.launch.meet.line import PROTOCOL
from fleet.launch.meet.messages import Offer

_HELLO_S = 5.0
_MAX_STRANGERS = 256
"""How many may stand at the door without having said who they are; then the one who came first is sent away."""
_MAX_HELLO_BYTES = 1 << 18
_SEND_S = 5.0
"""How long a launcher may take nothing of what it is told; then its connection is given up."""
_FORGOTTEN = "the job does not count on this machine any more"


@dataclass(eq=False)
class Visitor:
    """A connection that has not been admitted yet."""

    socket: socket.socket
    deadline: float
    heard: bytes = b""
    hello: dict[str, Any] | None = None
    """Its first message, kept while it proves that it knows the token."""
    challenge: str = ""


@dataclass(frozen=True)
class ReturningGuest:
    """A launcher that was here before, over a new connection."""

    guest: Guest
    socket: socket.socket
    session: str
    """Names this return, for seals."""


@dataclass(eq=False, repr=False)
class Lobby:
    """Admits the launchers that fit the job, and those that come back after the network broke.

    Where the user gave a token, a launcher must first prove that it has the same, and learns nothing of the job before.
    """

    listener: socket.socket
    selector: selectors.BaseSelector
    nodes: Nodes
    own: Offer
    token: JobToken
    holder_of: Callable[[int], str | None]
    """Which machine has a rank already, if that is reason enough to refuse another."""
    find: Callable[[str], Guest | None]
    """The guest of this name, if the job counts on it."""
    _is_shut: bool = field(default=False, init=False)
    _visitors: list[Visitor] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def serve(self, visitor: Visitor | None) -> Guest | ReturningGuest | None:
        """Open the door (None) or hear a visitor, of whom the selector has told; the guest, if one was admitted."""
        if visitor is not None:
            return self._read(visitor) if visitor in self._visitors else None
        with contextlib.suppress(OSError):
            self._let_in(self.listener.accept()[0])
        return None

    def forget_the_silent(self) -> None:
        """Send away who has not introduced itself in time."""
        for visitor in [one for one in self._visitors if time.monotonic() > one.deadline]:
            self._drop(visitor)

    def shut(self, reason: str) -> None:
        """From now on let in only who comes back; newcomers at the door are told why, later ones to try again."""
        self._is_shut = True
        for visitor in list(self._visitors):
            if not _is_back(visitor.hello):
                say(visitor.socket, error=reason)
                self._drop(visitor)

    def open(self) -> None:
        """From now on let in newcomers again."""
        self._is_shut = False

    def close(self) -> None:
        """Nobody is let in any more."""
        for visitor in list(self._visitors):
            self._drop(visitor)
        self.selector.unregister(self.listener)
        self.listener.close()

    def _let_in(self, connection: socket.socket) -> None:
        connection.settimeout(_SEND_S)  # for what we say; we listen only when something was said
        visitor = Visitor(connection, time.monotonic() + _HELLO_S)
        self._visitors.append(visitor)
        self.selector.register(connection, selectors.EVENT_READ, visitor)
        if len(self._visitors) > _MAX_STRANGERS:
            self._drop(self._visitors[0])

    def _drop(self, visitor: Visitor) -> None:
        self._forget(visitor)
        visitor.socket.close()

    def _forget(self, visitor: Visitor) -> None:
        self._visitors.remove(visitor)
        self.selector.unregister(visitor.socket)

    def _read(self, visitor: Visitor) -> Guest | ReturningGuest | None:
        try:
            chunk = visitor.socket.recv(1 << 16)
        except OSError:
            chunk = b""
        visitor.heard += chunk
        if not chunk or len(visitor.heard) > _MAX_HELLO_BYTES:
            self._drop(visitor)
        elif visitor.heard.endswith(b"\n"):
            return self._answer(visitor)
        return None

    def _answer(self, visitor: Visitor) -> Guest | ReturningGuest | None:
        """Admit a launcher of this job; tell another one what differs; drop what is not a launcher."""
        try:
            message = _read_message(visitor)
            if visitor.hello is None:
                visitor.hello = message
                if self._is_shut and not _is_back(message):
                    say(visitor.socket, say="busy")
                    self._drop(visitor)
                    return None
                complaint = self._unknown(message) if _is_back(message) else self._one_sided_token(message)
                if complaint is None and (_is_back(message) or self.token.is_given):
                    visitor.challenge = new_nonce()
                    say(visitor.socket, say="prove", challenge=visitor.challenge)
                    return None
                admitted: Guest | ReturningGuest | str = complaint or self._judge(visitor, message)
            elif _is_back(visitor.hello):
                admitted = self._recognise(visitor, message)
            else:
                admitted = self._check_proof(visitor, message) or self._judge(visitor, visitor.hello)
        except CommunicationError:
            self._drop(visitor)
            return None
        if not isinstance(admitted, str):
            self._forget(visitor)
            return admitted
        say(visitor.socket, error=admitted)
        self._drop(visitor)
        return None

    def _unknown(self, hello: dict[str, Any]) -> str | None:
        return None if self.find(str(hello["back"])) and is_nonce(hello.get("nonce")) else _FORGOTTEN

    def _recognise(self, visitor: Visitor, message: dict[str, Any]) -> ReturningGuest | str:
        """The guest that comes back: the same launcher, in the round in which what it has heard has left it."""
        assert visitor.hello is not None
        guest = self.find(str(visitor.hello["back"]))
        if guest is None:
            return _FORGOTTEN
        session = guest.name + _session(visitor)
        said = {name: message.get(name) for name in ("heard", "restart")}
        num_heard = said["heard"]
        if not guest.key.fits(message.get("proof"), "return", session, said):
            return "this machine did not prove that it is the one that was here before"
        if type(num_heard) is not int or said["restart"] != guest.round_after(num_heard):
            return "this machine is in another round of the job"
        guest.conversation.acknowledge(num_heard)
        return ReturningGuest(guest, visitor.socket, session)

    def _one_sided_token(self, hello: dict[str, Any]) -> str | None:
        if (hello.get("nonce") is not None) == self.token.is_given:
            return None
        has, lacks = (
            ("the meeting point", "this machine") if self.token.is_given else ("this machine", "the meeting point")
        )
        return f"FLEET_JOB_TOKEN is set on {has} but not on {lacks}; set the same on every machine"

    def _check_proof(self, visitor: Visitor, message: dict[str, Any]) -> str | None:
        assert visitor.hello is not None
        if self.token.fits(message.get("proof"), "guest", _session(visitor), visitor.hello):
            return None
        return "FLEET_JOB_TOKEN is not the one of the meeting point; set the same on every machine"

    def _judge(self, visitor: Visitor, hello: dict[str, Any]) -> Guest | str:
        """The guest, or what speaks against it."""
        offer = Offer.from_json(hello.get("offer") or {})
        rank, nodes = hello.get("rank"), hello.get("nnodes")
        if nodes != str(self.nodes):
            return f"this machine expects {nodes} machines, the meeting point {self.nodes}; make them equal"
        if offer.terms != self.own.terms:
            own = self.own.terms
            return f"this machine was started with {offer.terms}, the meeting point with {own}; make them equal"
        if rank is not None and (type(rank) is not int or not 0 <= rank < self.nodes.most):
            return f"--rank {rank} does not fit {self.nodes} machines"
        if rank is not None and (holder := self.holder_of(rank)) is not None:
            return f"--rank {rank} is taken by {holder}; give each machine its own rank"
        key = self.token if self.token.is_given else JobToken(new_nonce(), is_given=False)
        return Guest(visitor.socket, _session(visitor), rank, offer, key)


def _is_back(hello: dict[str, Any] | None) -> bool:
    return hello is not None and "back" in hello


def _session(visitor: Visitor) -> str:
    """Both sides have said a part of it, so neither can be made to repeat an old conversation."""
    assert visitor.hello is not None
    return visitor.challenge + (visitor.hello.get("nonce") or "")


def _read_message(visitor: Visitor) -> dict[str, Any]:
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
