"""The meeting point of a job: a thread in the launcher of its machine, to which every launcher has one connection.

    gathering --- all who live are back, and enough are here -----> running
    running   --- a failure, if restarts are left; a newcomer ----> gathering
    either    --- finished, used up, stopped, nobody came --------> over

The machine of the meeting point is a guest like the others: its launcher speaks through a pair of sockets. All that is
known about the job as a whole is here, and one thread changes it, so the machines never have to agree on anything.
docs/adr/0009-elastic-launcher.md has the reasons.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

from fleet import net
from fleet.errors import CommunicationError
from fleet.launch.job_token import JobToken
from fleet.launch.lobby import PROTOCOL, Guest, Lobby, Visitor, hear, say
from fleet.launch.messages import MAX_LINE_BYTES, NodeFailed, Offer, notice_dead_machines
from fleet.launch.options import Nodes
from fleet.launch.seats import choose, seat
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")

LAST_CALL_S = 3.0
"""How long nobody new must have come before a job begins with fewer machines than it may have."""
STOPPING_S = 20.0
"""How much longer than for a machine that is not there we wait for one that is, and stops its workers."""
_REMIND_S = 10.0
_GATHERING_TICK_S = 0.1
_TICK_S = 1.0
_FULL = "the job has begun with all the machines it needs; is one of them started twice?"


class _State(enum.Enum):
    GATHERING = enum.auto()
    RUNNING = enum.auto()
    OVER = enum.auto()


class Host:
    """Gathers the machines for each round, relays what they say, and decides whether there is another round."""

    def __init__(
        self,
        listener: socket.socket,
        point: Endpoint,
        nodes: Nodes,
        max_restart: int,
        rank: int,
        own: Offer,
        token: JobToken,
        timeout_s: float,
    ) -> None:
        """Begin to gather; `own` is what this machine brings, at index `rank`."""
        self._point = point
        self._nodes = nodes
        self._max_restart = max_restart
        self._token = token
        self._timeout_s = timeout_s
        self._selector = selectors.DefaultSelector()
        self._lobby: Lobby | None = Lobby(listener, self._selector, nodes, own, token, self._holder_of)
        self.own_end, inner_end = socket.socketpair()
        """Where the launcher of this machine speaks and listens."""
        self._own = Guest(inner_end, "", rank, own)
        self._guests = [self._own]
        """In the order in which they came."""
        self._offers: list[Offer] = []
        self._restart = -1
        self._num_failures = 0
        self._selector.register(inner_end, selectors.EVENT_READ, self._own)
        self._gather("")
        self._thread = threading.Thread(target=self._run, name="meeting-point", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait until everybody has been told; the launcher has closed its end."""
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            while self._own in self._guests:
                tick_s = _GATHERING_TICK_S if self._state is _State.GATHERING else _TICK_S
                for key, _ in self._selector.select(tick_s):
                    if isinstance(key.data, Guest):
                        self._read(key.data)
                    else:
                        self._open_the_door(key.data)
                if self._lobby is not None:
                    self._lobby.forget_the_silent()
                self._move_on()
            if self._state is not _State.OVER:
                self._end(f"fleetrun was stopped at the meeting point {self._point}", 1)
        finally:
            self._leave()

    def _move_on(self) -> None:
        now = time.monotonic()
        if self._state is _State.GATHERING:
            chosen = choose((guest for guest in self._guests if guest.is_waiting), self._nodes.most)
            is_full = len(chosen) == self._nodes.most
            is_quiet = now - self._arrived_at > LAST_CALL_S or now > self._deadline
            is_enough = len(chosen) >= self._nodes.least and is_quiet
            stragglers = self._stragglers()
            if not stragglers and (is_full or is_enough):
                self._begin(seat(chosen, self._nodes.most))
            elif now > self._deadline + (STOPPING_S if stragglers else 0.0):
                self._end(self._what_is_missing(len(chosen)), 1)
            elif now > self._remind_at:
                self._remind_at += _REMIND_S
                log.info("waiting at %s for %d of %s machines", self._point, *self._count_missing(len(chosen)))
        elif self._state is _State.RUNNING and self._could_grow():
            came = ", ".join(guest.offer.host for guest in self._guests if guest.offer is not None)
            self._gather(f"a machine has come ({came})")
            for member in self._stragglers():
                self._tell(member, say="regroup", why=self._why)

    def _gather(self, why: str) -> None:
        """Wait for all machines that are still connected, and for newcomers."""
        now = time.monotonic()
        self._state = _State.GATHERING
        self._why = why
        self._arrived_at = now
        self._deadline = now + self._timeout_s
        self._remind_at = now + _REMIND_S

    def _begin(self, members: list[Guest]) -> None:
        """Tell everybody who takes part; those for whom there is no room go on waiting."""
        self._state = _State.RUNNING
        self._restart += 1
        self._offers = [guest.offer for guest in members if guest.offer is not None]
        listed = [offer.to_json() for offer in self._offers]
        for guest in [guest for guest in self._guests if guest not in members]:
            if self._goes_on:
                self._tell(guest, say="wait")
            else:
                self._tell_sealed(guest, say="over", reason=_FULL, code=2)
        if not self._goes_on:
            self._close_the_door(_FULL)
        for place, guest in enumerate(members):
            guest.place, guest.offer, guest.is_done = place, None, False
            begin = {"say": "begin", "rank": place, "host": members.index(self._own), "offers": listed}
            begin |= {"restart": self._restart, "failures": self._num_failures, "why": self._why}
            if not self._token.is_given:
                self._tell(guest, **begin, token=self._token.value)
            else:
                self._tell_sealed(guest, **begin)

    @property
    def _goes_on(self) -> bool:
        """Whether there may be another round, so that the door stays open."""
        return self._max_restart > 0 or self._nodes.is_range

    def _could_grow(self) -> bool:
        """Whether somebody waits for whom there is room, and nobody has finished whose work would be done again."""
        members = self._stragglers()
        grown = choose((*members, *(guest for guest in self._guests if guest.is_waiting)), self._nodes.most)
        return len(grown) > len(members) and not any(member.is_done for member in members)

    def _stragglers(self) -> list[Guest]:
        """Those of the last round who have not come back; while a round runs, its members."""
        return [guest for guest in self._guests if guest.place is not None]

    def _holder_of(self, rank: int) -> str | None:
        """Before the first round a rank asked for twice is a mistake; later it may be a machine that comes again."""
        if self._restart >= 0:
            return None
        return next((guest.offer.host for guest in self._guests if guest.offer and guest.rank == rank), None)

    def _open_the_door(self, visitor: Visitor | None) -> None:
        if self._lobby is None or (guest := self._lobby.serve(visitor)) is None:
            return
        notice_dead_machines(guest.socket)
        self._selector.register(guest.socket, selectors.EVENT_READ, guest)
        self._guests.append(guest)
        self._arrived_at = time.monotonic()
        self._tell(guest, say="welcome")
        if self._state is _State.RUNNING:
            self._tell(guest, say="wait")

    def _read(self, guest: Guest) -> None:
        chunk = hear(guest.socket)
        guest.heard += chunk
        *lines, guest.heard = guest.heard.split(b"\n")
        try:
            for line in lines:
                self._hear(guest, line)
            if not chunk or len(guest.heard) > MAX_LINE_BYTES:
                raise CommunicationError("gone, or not a launcher")
        except Exception:  # of whatever kind: what one machine says must not end the meeting of the others
            self._lose(guest)

    def _hear(self, guest: Guest, line: bytes) -> None:
        message = json.loads(line)
        if not isinstance(message, dict):
            raise CommunicationError("not a message of fleetrun")
        match message.get("say"):
            case "done":
                guest.is_done = guest.place is not None
                if self._state is _State.RUNNING and all(member.is_done for member in self._stragglers()):
                    self._finish()
            case "failed":
                self._fail(NodeFailed.from_json(message), guest)
            case "again":
                self._take_back(guest, message)

    def _take_back(self, guest: Guest, message: dict[str, Any]) -> None:
        """A member of the last round is ready for the next."""
        must_prove = self._token.is_given and guest is not self._own
        if must_prove and not self._token.fits(message.pop("proof", None), "guest", guest.session, message):
            raise CommunicationError("it did not prove that it knows the token")
        if message.get("restart") != self._restart + 1 or guest.place is None:
            raise CommunicationError("it is in another round")
        guest.offer, guest.place = Offer.from_json(message.get("offer") or {}), None
        self._arrived_at = time.monotonic()

    def _lose(self, guest: Guest) -> None:
        """A connection has ended: that of a member of the round that runs is a failure."""
        self._guests.remove(guest)
        self._selector.unregister(guest.socket)
        guest.socket.close()
        if guest.place is not None and guest is not self._own and self._state is _State.RUNNING:
            where = f"machine {guest.place} ({self._offers[guest.place].host})"
            self._fail(NodeFailed(f"{where} is gone: its fleetrun ended or the network broke", 1, time.time()), guest)

    def _fail(self, failure: NodeFailed, guest: Guest) -> None:
        for member in self._stragglers():
            if member is not guest:
                self._tell(member, **failure.to_json())
        if failure.is_final:
            self._end(f"the job was ended: {failure.what}", failure.code)
        elif self._state is _State.RUNNING:
            self._num_failures += 1
            self._gather(failure.what)
            if self._num_failures > self._max_restart:
                times = "once" if self._num_failures == 1 else f"{self._num_failures} times"
                self._end(f"the job has failed {times} and --max_restart is {self._max_restart}: {failure.what}", None)

    def _finish(self) -> None:
        for member in self._stragglers():
            self._tell(member, say="all done")
        self._end("the job has finished; this machine was not needed", 0, but=self._stragglers())

    def _end(self, reason: str, code: int | None, but: Iterable[Guest] = ()) -> None:
        """There is no other round. Without a code, a machine ends with that of the failure it has seen."""
        if self._state is _State.OVER:
            return
        self._state = _State.OVER
        self._close_the_door("the job has ended")  # who comes now is meant for another job
        for guest in self._guests:
            if guest not in but:
                self._tell_sealed(guest, say="over", reason=reason, code=code)

    def _tell_sealed(self, guest: Guest, **message: Any) -> None:
        """`_tell`, with a proof that we know the token where one was given."""
        if self._token.is_given:
            message["proof"] = self._token.seal("host", guest.session, {"protocol": PROTOCOL, **message})
        self._tell(guest, **message)

    def _tell(self, guest: Guest, **message: Any) -> None:
        if not say(guest.socket, **message):
            with contextlib.suppress(OSError):
                guest.socket.shutdown(socket.SHUT_RDWR)  # then we hear its end, and lose it, when its turn comes

    def _count_missing(self, num_here: int) -> tuple[int, str]:
        least = f"at least {self._nodes.least}" if self._nodes.is_range else str(self._nodes.least)
        return max(self._nodes.least - num_here, len(self._stragglers())), least

    def _what_is_missing(self, num_here: int) -> str:
        missing, of = self._count_missing(num_here)
        remedy = "start fleetrun there, or check that they can reach this address"
        if net.is_loopback(self._point.host) or any(map(net.is_loopback, net.resolve(self._point.host))):
            remedy += f" ({self._point.host} is loopback on this machine: the others need an address that leads here)"
        return f"waited for {missing} of {of} machines at {self._point}; {remedy}"

    def _close_the_door(self, reason: str) -> None:
        if self._lobby is not None:
            self._lobby.close(reason)
            self._lobby = None

    def _leave(self) -> None:
        self._close_the_door("the job has ended")
        for guest in self._guests:
            # A connection that is closed with words unheard takes back what it has not delivered yet.
            guest.socket.setblocking(False)
            while hear(guest.socket):
                pass
            guest.socket.close()
        self._selector.close()
