"""How a launcher comes to the meeting point: it listens there itself, or connects to the one that does.

The launcher on the machine of the meeting point listens (`host`, with `lobby` as its door), the others connect. A guest
sends its offer as one JSON line and is welcomed or refused at once. What follows, round by round, is `team`'s.

Where the user gave the job a token, a guest is asked to prove that it has it before anything else; the token itself
stays where it is.
"""

import errno
import functools
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet import env, net
from fleet.errors import CommunicationError, DeadlineError, EndpointError, UsageError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet.host import Host
from fleet.launch.meet.job_token import JobToken, is_nonce, new_nonce
from fleet.launch.meet.line import PROTOCOL, HungUpError, MessageLine
from fleet.launch.meet.link import Link, ReturnTicket
from fleet.launch.meet.messages import Offer
from fleet.launch.meet.reach import Patience, probe
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")

DEFAULT_TIMEOUT_S = 300.0
_HANDSHAKE_S = 10.0
_REMIND_S = 10.0
_RETRY_S = 0.2
_OWN_REFUSALS_S = 2.0
"""How long our own port may be taken by another launcher of the job that does not listen yet."""


class _BusyError(CommunicationError):
    """A job that needs nobody else has the meeting point."""


def timeout_s() -> float:
    """How long launchers wait for each other."""
    return env.FLEET_INIT_TIMEOUT_S.get() or DEFAULT_TIMEOUT_S


def join(
    point: Endpoint,
    nodes: Nodes,
    max_restart: int,
    rank: int | None,
    token: JobToken,
    make_offer: Callable[[str], Offer],
    patience: Patience,
) -> Link:
    """Come to `point` with an offer; the launcher on the machine of `point` becomes the host.

    `make_offer` is given this machine's address in the job and holds its ports. Where several launchers run on the
    machine of `point` the first is the host; it has rank 0 unless it was given another. Where another job has the
    meeting point, its end is waited for.
    """
    deadline = time.monotonic() + timeout_s()
    make_offer = functools.cache(make_offer)  # its ports are held once
    reminder = _Reminder(point)
    while True:
        listener = _try_to_host(point) if net.is_local(point.host) else None
        try:
            if listener is None:
                return _Knock(point, nodes, rank, token, make_offer, patience, deadline, reminder).join()
            offer = make_offer(point.host)
            host = Host(listener, point, nodes, max_restart, rank or 0, offer, token, timeout_s(), patience)
            return Link(point, point.host, MessageLine(host.own_end), patience, host=host)
        except _BusyError:
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"waited for the meeting point {point}, where a job runs that has all its machines; "
                    "choose another port, or is this machine started twice?"
                ) from None
            reminder.tell(", where another job runs")
            time.sleep(_RETRY_S)
        except BaseException:
            if listener is not None:
                listener.close()
            raise


def _try_to_host(point: Endpoint) -> socket.socket | None:
    """Listen at the meeting point, or None if somebody does already: then that one is the host."""
    address = net.own_address(point.host)
    try:
        # SO_REUSEADDR, which this sets, only skips the wait for old connections to time out; two cannot listen.
        return socket.create_server((address, point.port), family=net.family_of(address), backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        raise EndpointError(f"cannot listen at the meeting point {point}: {error.strerror or error}") from error


class _Reminder:
    """Says from time to time what is waited for."""

    def __init__(self, point: Endpoint) -> None:
        self._point = point
        self._at = time.monotonic() + _REMIND_S

    def tell(self, more: str = "") -> None:
        if time.monotonic() > self._at:
            log.info("waiting for the meeting point %s%s", self._point, more)
            self._at += _REMIND_S


@dataclass(frozen=True)
class _Knock:
    """A launcher that comes to the meeting point as a guest."""

    point: Endpoint
    nodes: Nodes
    rank: int | None
    token: JobToken
    make_offer: Callable[[str], Offer]
    patience: Patience
    deadline: float
    reminder: _Reminder

    def join(self) -> Link:
        """Be welcomed; _BusyError if another job is there."""
        try:
            return self._once()
        except EndpointError as error:
            if not isinstance(error.__cause__, HungUpError):
                raise
        # A crowded door sends away who came first, whoever that is.
        return self._once()

    def _once(self) -> Link:
        connection = _connect(self.point, self.deadline, self.reminder)
        line = MessageLine(connection)
        try:
            address = connection.getsockname()[0]
            # Beside the host: others reach this machine by the name they reach the host by.
            if net.is_loopback(address) or net.is_local(self.point.host):
                address = self.point.host
            offer = self.make_offer(address)
            hello = {"protocol": PROTOCOL, "nnodes": str(self.nodes), "rank": self.rank, "offer": offer.to_json()}
            connection.settimeout(_HANDSHAKE_S)
            session, seat = self._introduce(line, hello)
            probe(connection, self.patience)
            connection.settimeout(None)
        except BaseException:
            line.close()
            raise
        return Link(self.point, address, line, self.patience, session, seat)

    def _introduce(self, line: MessageLine, hello: dict[str, Any]) -> tuple[str, ReturnTicket | None]:
        """Say hello, prove the token if one was given, and be welcomed; returns the session, and how to come back."""
        nonce = ""
        if self.token.is_given:
            hello["nonce"] = nonce = new_nonce()
        line.send(**hello)
        answer = _receive_from_host(line, self.point)
        session = nonce
        if self.token.is_given and is_nonce(answer.get("challenge")):
            session = answer["challenge"] + nonce
            line.send(protocol=PROTOCOL, proof=self.token.seal("guest", session, hello))
            answer = _receive_from_host(line, self.point)
        if answer.get("say") != "welcome":
            raise EndpointError(
                f"what listens at the meeting point {self.point} is not a fleetrun; choose another port"
            )
        name, ticket = answer.get("name"), self.token.value if self.token.is_given else answer.get("ticket")
        is_known = is_nonce(name) and isinstance(ticket, str)
        return session, ReturnTicket(str(name), JobToken(str(ticket), self.token.is_given)) if is_known else None


def _receive_from_host(line: MessageLine, point: Endpoint) -> dict[str, Any]:
    try:
        answer = line.receive()
    except CommunicationError as error:
        raise EndpointError(
            f"what listens at the meeting point {point} is not a fleetrun ({error}); choose another port"
        ) from error
    if answer.get("protocol") != PROTOCOL:
        raise EndpointError(f"what listens at the meeting point {point} is not a fleetrun of this version")
    if "error" in answer:
        raise UsageError(f"the meeting point {point} refused this machine: {answer['error']}")
    if answer.get("say") == "busy":
        raise _BusyError("another job is there")
    return answer


def _connect(point: Endpoint, deadline: float, reminder: _Reminder) -> socket.socket:
    """Connect to the host, which may start later than this launcher."""
    own_refusals_end = time.monotonic() + _OWN_REFUSALS_S if net.is_local(point.host) else None
    while True:
        left = deadline - time.monotonic()
        try:
            return socket.create_connection((point.host, point.port), timeout=max(0.1, min(left, _HANDSHAKE_S)))
        except OSError as error:
            if left <= 0:
                raise DeadlineError(
                    f"waited for the meeting point {point} ({error}); start fleetrun on {point.host}, "
                    "or check that this machine can reach it"
                ) from error
            if own_refusals_end is not None and time.monotonic() > own_refusals_end:
                raise EndpointError(
                    f"the meeting point {point} is in use by a program that does not listen there; choose another port"
                ) from error
        reminder.tell()
        time.sleep(_RETRY_S)
