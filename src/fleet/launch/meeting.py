"""How the launchers of several machines find each other and tell each other their ports.

One launcher listens at the meeting point, the others connect. Each sends its offer as one JSON line; when all are
there, everybody receives the list, in the order of the machines' ranks. Then they are a team.
"""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

from fleet import env, net
from fleet.errors import CommunicationError, DeadlineError, EndpointError, UsageError
from fleet.launch.team import GuestTeam, HostTeam, Line, Offer, Team
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")

PROTOCOL = "fleetrun/1"
DEFAULT_TIMEOUT_S = 300.0
_HANDSHAKE_S = 10.0
_REMIND_S = 10.0
_RETRY_S = 0.2


def meet(
    point: Endpoint, num_nodes: int, rank: int | None, make_offer: Callable[[str], Offer], resources: ExitStack
) -> Team:
    """Join the other launchers at `point`.

    `make_offer` is given this machine's address in the job and holds its ports. The launcher on the machine of `point`
    is the host (the first one, where several run there), and has rank 0 unless it was given another. Whatever stays
    open goes to `resources`.
    """
    deadline = time.monotonic() + (env.FLEET_INIT_TIMEOUT_S.get() or DEFAULT_TIMEOUT_S)
    listener = _try_to_host(point) if net.is_local(point.host) else None
    if listener is None:
        return _join_as_guest(point, num_nodes, rank, make_offer, resources, deadline)
    with listener:
        return _join_as_host(listener, point, num_nodes, rank or 0, make_offer, resources, deadline)


def _try_to_host(point: Endpoint) -> socket.socket | None:
    """Listen at the meeting point, or None if somebody does already: then that one is the host."""
    try:
        # SO_REUSEADDR only skips the wait for old connections to time out; it does not let two launchers listen.
        return socket.create_server((point.host, point.port), backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        raise EndpointError(f"cannot listen at the meeting point {point}: {error.strerror or error}") from error


def _join_as_host(
    listener: socket.socket,
    point: Endpoint,
    num_nodes: int,
    own_rank: int,
    make_offer: Callable[[str], Offer],
    resources: ExitStack,
    deadline: float,
) -> Team:
    offer = make_offer(point.host)
    offers: dict[int, Offer] = {own_rank: offer}
    lines: dict[int, Line] = {}
    unranked: list[tuple[Line, Offer]] = []
    remind_at = time.monotonic() + _REMIND_S
    while len(offers) + len(unranked) < num_nodes:
        missing = num_nodes - len(offers) - len(unranked)
        if time.monotonic() > deadline:
            raise DeadlineError(
                f"waited for {missing} of {num_nodes} machines at {point}; start fleetrun there, "
                "or check that they can reach this address"
            )
        if time.monotonic() > remind_at:
            log.info("waiting at %s for %d of %d machines", point, missing, num_nodes)
            remind_at += _REMIND_S
        listener.settimeout(min(1.0, _REMIND_S))
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        arrival = _admit(connection, num_nodes, offer.terms, offers)
        if arrival is None:
            continue
        line, rank, theirs = arrival
        resources.callback(line.close)
        if rank is None:
            unranked.append((line, theirs))
        else:
            offers[rank], lines[rank] = theirs, line
    free = [rank for rank in range(num_nodes) if rank not in offers]
    for rank, (line, theirs) in zip(free, unranked, strict=True):
        offers[rank], lines[rank] = theirs, line
    listed = [offers[rank].to_json() for rank in range(num_nodes)]
    for rank, line in lines.items():
        line.send(protocol=PROTOCOL, rank=rank, host=own_rank, offers=listed)
    team = HostTeam(tuple(offers[rank] for rank in range(num_nodes)), own_rank, lines)
    resources.callback(team.close)
    return team


def _admit(
    connection: socket.socket, num_nodes: int, terms: str, taken: dict[int, Offer]
) -> tuple[Line, int | None, Offer] | None:
    """Read one arrival; None if it is not a launcher of this job. Its mistakes are told to it, not to everybody."""
    connection.settimeout(_HANDSHAKE_S)
    line = Line(connection)
    try:
        hello = line.receive()
        if hello.get("protocol") != PROTOCOL:
            raise CommunicationError("not a fleetrun of this version")
        offer = Offer.from_json(hello.get("offer") or {})
        rank = hello.get("rank")
        complaint = None
        if hello.get("nnodes") != num_nodes:
            complaint = (
                f"this machine expects {hello.get('nnodes')} machines, the meeting point {num_nodes}; make them equal"
            )
        elif offer.terms != terms:
            complaint = f"this machine was started with {offer.terms}, the meeting point with {terms}; make them equal"
        elif rank is not None and (not isinstance(rank, int) or not 0 <= rank < num_nodes):
            complaint = f"--rank {rank} does not fit {num_nodes} machines"
        elif rank in taken:
            complaint = f"--rank {rank} is taken by {taken[rank].host}; give each machine its own rank"
    except CommunicationError:
        line.close()
        return None
    if complaint is not None:
        line.send(protocol=PROTOCOL, error=complaint)
        line.close()
        return None
    return line, rank, offer


def _join_as_guest(
    point: Endpoint,
    num_nodes: int,
    rank: int | None,
    make_offer: Callable[[str], Offer],
    resources: ExitStack,
    deadline: float,
) -> Team:
    connection = _connect(point, deadline)
    line = Line(connection)
    resources.callback(line.close)
    offer = make_offer(connection.getsockname()[0])
    line.send(protocol=PROTOCOL, nnodes=num_nodes, rank=rank, offer=offer.to_json())
    connection.settimeout(max(0.1, deadline - time.monotonic()))
    try:
        answer = line.receive()
    except CommunicationError as error:
        raise CommunicationError(
            f"the meeting point {point} did not answer as a fleetrun ({error}); is another program on that port?"
        ) from error
    if "error" in answer:
        raise UsageError(f"the meeting point {point} refused this machine: {answer['error']}")
    if answer.get("protocol") != PROTOCOL:
        raise CommunicationError(f"what listens at {point} is not a fleetrun of this version")
    offers = tuple(Offer.from_json(item) for item in answer["offers"])
    team = GuestTeam(offers, int(answer["rank"]), int(answer["host"]), line)
    resources.callback(team.close)
    return team


def _connect(point: Endpoint, deadline: float) -> socket.socket:
    """Connect to the host, which may start later than this launcher."""
    remind_at = time.monotonic() + _REMIND_S
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
        if time.monotonic() > remind_at:
            log.info("waiting for the meeting point %s", point)
            remind_at += _REMIND_S
        time.sleep(_RETRY_S)
