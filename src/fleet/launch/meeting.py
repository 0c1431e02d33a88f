"""How a launcher comes to the meeting point: it listens there itself, or connects to the one that does.

The launcher on the machine of the meeting point listens (`host`, with `lobby` as its door), the others connect. A guest
sends its offer as one JSON line and is welcomed or refused at once. What follows, round by round, is `team`'s.

Where the user gave the job a token, a guest is asked to prove that it has it before anything else; the token itself
stays where it is.
"""

from __future__ import annotations

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
from fleet.launch.host import Host
from fleet.launch.job_token import JobToken, is_nonce, new_nonce
from fleet.launch.lobby import PROTOCOL
from fleet.launch.messages import HungUpError, Line, Offer, notice_dead_machines
from fleet.launch.options import Nodes
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")

DEFAULT_TIMEOUT_S = 300.0
_HANDSHAKE_S = 10.0
_REMIND_S = 10.0
_RETRY_S = 0.2
_OWN_REFUSALS_S = 2.0
"""How long our own port may be taken by another launcher of the job that does not listen yet."""


@dataclass(frozen=True)
class Link:
    """A launcher's connection to the meeting point."""

    point: Endpoint
    address: str
    """This machine's address in the job."""
    line: Line
    session: str
    """Names the conversation, for seals; empty where no token was given, and on the machine of the meeting point."""
    host: Host | None = None
    """The meeting point itself, if it is here."""

    @property
    def is_sealed(self) -> bool:
        """Whether the other side has a token to prove."""
        return self.session != ""

    def close(self) -> None:
        """Leave the meeting point; the host, if it is here, ends as soon as everybody has been told."""
        self.line.close()
        if self.host is not None:
            self.host.close()


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
) -> Link:
    """Come to `point` with an offer; the launcher on the machine of `point` becomes the host.

    `make_offer` is given this machine's address in the job and holds its ports. Where several launchers run on the
    machine of `point` the first is the host; it has rank 0 unless it was given another.
    """
    listener = _try_to_host(point) if net.is_local(point.host) else None
    if listener is None:
        return _join_as_guest(point, nodes, rank, token, make_offer)
    try:
        offer = make_offer(point.host)
    except BaseException:
        listener.close()
        raise
    host = Host(listener, point, nodes, max_restart, rank or 0, offer, token, timeout_s())
    return Link(point, point.host, Line(host.own_end), "", host)


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


def _join_as_guest(
    point: Endpoint, nodes: Nodes, rank: int | None, token: JobToken, make_offer: Callable[[str], Offer]
) -> Link:
    make_offer = functools.cache(make_offer)  # its ports are held once
    try:
        return _knock(point, nodes, rank, token, make_offer)
    except EndpointError as error:
        if not isinstance(error.__cause__, HungUpError):
            raise
    # A crowded door sends away who came first, whoever that is.
    return _knock(point, nodes, rank, token, make_offer)


def _knock(
    point: Endpoint, nodes: Nodes, rank: int | None, token: JobToken, make_offer: Callable[[str], Offer]
) -> Link:
    connection = _connect(point, time.monotonic() + timeout_s())
    line = Line(connection)
    try:
        address = connection.getsockname()[0]
        if net.is_loopback(address):  # beside the host: others reach this machine by the name they reach the host by
            address = point.host
        offer = make_offer(address)
        hello = {"protocol": PROTOCOL, "nnodes": str(nodes), "rank": rank, "offer": offer.to_json()}
        connection.settimeout(_HANDSHAKE_S)
        session = _introduce(line, point, token, hello)
        notice_dead_machines(connection)
        connection.settimeout(None)
    except BaseException:
        line.close()
        raise
    return Link(point, address, line, session)


def _introduce(line: Line, point: Endpoint, token: JobToken, hello: dict[str, Any]) -> str:
    """Say hello, prove the token if one was given, and be welcomed; returns the session."""
    nonce = ""
    if token.is_given:
        hello["nonce"] = nonce = new_nonce()
    line.send(**hello)
    answer = _receive_from_host(line, point)
    session = nonce
    if token.is_given and is_nonce(answer.get("challenge")):
        session = answer["challenge"] + nonce
        line.send(protocol=PROTOCOL, proof=token.seal("guest", session, hello))
        answer = _receive_from_host(line, point)
    if answer.get("say") != "welcome":
        raise EndpointError(f"what listens at the meeting point {point} is not a fleetrun; choose another port")
    return session


def _receive_from_host(line: Line, point: Endpoint) -> dict[str, Any]:
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
    return answer


def _connect(point: Endpoint, deadline: float) -> socket.socket:
    """Connect to the host, which may start later than this launcher."""
    remind_at = time.monotonic() + _REMIND_S
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
        if time.monotonic() > remind_at:
            log.info("waiting for the meeting point %s", point)
            remind_at += _REMIND_S
        time.sleep(_RETRY_S)
