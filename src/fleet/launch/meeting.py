"""How the launchers of several machines find each other and tell each other their ports.

The launcher on the machine of the meeting point listens (`lobby`), the others connect. A guest sends its offer as one
JSON line and is welcomed or refused at once; when all are there, everybody receives the list of offers, in the order of
the machines' ranks. Then they are a team.

Where the user gave the job a token, a guest is asked to prove that it has it before anything else, and the list comes
with the host's own proof; the token itself stays where it is. Otherwise the host's token travels with the list.
"""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from fleet import env, net
from fleet.errors import CommunicationError, DeadlineError, EndpointError, UsageError
from fleet.launch.job_token import JobToken, is_nonce, new_nonce
from fleet.launch.lobby import PROTOCOL, Lobby
from fleet.launch.messages import Line, Offer
from fleet.launch.team import GuestTeam, HostTeam, Team
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")

DEFAULT_TIMEOUT_S = 300.0
_HANDSHAKE_S = 10.0
_REMIND_S = 10.0
_RETRY_S = 0.2
_OWN_REFUSALS_S = 2.0
"""How long our own port may be taken by another launcher of the job that does not listen yet."""


def meet(
    point: Endpoint,
    num_nodes: int,
    rank: int | None,
    token: JobToken,
    make_offer: Callable[[str], Offer],
    resources: ExitStack,
) -> Team:
    """Join the other launchers at `point`.

    `make_offer` is given this machine's address in the job and holds its ports. The launcher on the machine of `point`
    is the host (the first one, where several run there), and has rank 0 unless it was given another. `token` is this
    launcher's own; the team's is the host's. Whatever stays open goes to `resources`.
    """
    deadline = time.monotonic() + (env.FLEET_INIT_TIMEOUT_S.get() or DEFAULT_TIMEOUT_S)
    listener = _try_to_host(point) if net.is_local(point.host) else None
    if listener is None:
        return _join_as_guest(point, num_nodes, rank, token, make_offer, resources, deadline)
    with listener:
        return _join_as_host(listener, point, num_nodes, rank or 0, token, make_offer, resources, deadline)


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


def _join_as_host(
    listener: socket.socket,
    point: Endpoint,
    num_nodes: int,
    own_rank: int,
    token: JobToken,
    make_offer: Callable[[str], Offer],
    resources: ExitStack,
    deadline: float,
) -> Team:
    own = make_offer(point.host)
    lobby = Lobby(listener, num_nodes, own_rank, own, token)
    try:
        remind_at = time.monotonic() + _REMIND_S
        while not lobby.is_complete():
            now = time.monotonic()
            if now > deadline:
                raise DeadlineError(
                    f"waited for {lobby.num_missing} of {num_nodes} machines at {point}; start fleetrun there, "
                    "or check that they can reach this address"
                )
            if now > remind_at:
                log.info("waiting at %s for %d of %d machines", point, lobby.num_missing, num_nodes)
                remind_at += _REMIND_S
            lobby.serve(timeout_s=min(1.0, deadline - now + 0.01))
    except BaseException as error:
        lobby.dismiss(str(error) if isinstance(error, Exception) else "fleetrun was stopped at the meeting point")
        raise
    offers, guests = lobby.close()
    lines = {rank: Line(guest.socket) for rank, guest in guests.items()}
    for line in lines.values():
        resources.callback(line.close)
    listed = [offer.to_json() for offer in offers]
    for rank, line in lines.items():
        answer: dict[str, Any] = {"protocol": PROTOCOL, "rank": rank, "host": own_rank, "offers": listed}
        if token.is_given:
            line.send(**answer, proof=token.seal("host", guests[rank].session, answer))
        else:
            line.send(**answer, token=token.value)
    team = HostTeam(token, offers, own_rank, lines)
    resources.callback(team.close)
    return team


def _join_as_guest(
    point: Endpoint,
    num_nodes: int,
    rank: int | None,
    token: JobToken,
    make_offer: Callable[[str], Offer],
    resources: ExitStack,
    deadline: float,
) -> Team:
    connection = _connect(point, deadline)
    line = Line(connection)
    resources.callback(line.close)
    offer = make_offer(connection.getsockname()[0])
    hello = {"protocol": PROTOCOL, "nnodes": num_nodes, "rank": rank, "offer": offer.to_json()}
    connection.settimeout(_HANDSHAKE_S)
    session = _introduce(line, point, token, hello)
    connection.settimeout(max(0.1, deadline - time.monotonic()))
    try:
        answer = line.receive()
    except CommunicationError as error:
        if time.monotonic() >= deadline:
            raise DeadlineError(f"waited at {point} for the other machines; start fleetrun on all of them") from error
        raise CommunicationError(f"the meeting at {point} ended before all machines had come ({error})") from error
    if "error" in answer:
        raise CommunicationError(f"the meeting at {point} ended: {answer['error']}")
    if token.is_given:
        if not token.fits(answer.pop("proof", None), "host", session, answer):
            raise EndpointError(
                f"what listens at the meeting point {point} did not prove that it knows FLEET_JOB_TOKEN; "
                "set the same on every machine, or choose another port"
            )
    else:
        token = JobToken.from_host(answer.get("token"))
    offers = tuple(Offer.from_json(item) for item in answer["offers"])
    team = GuestTeam(token, offers, int(answer["rank"]), int(answer["host"]), line)
    resources.callback(team.close)
    return team


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
