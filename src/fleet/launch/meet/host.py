"""The meeting point of a job: a thread in the launcher of its machine, to which every launcher has one connection.

    gathering --- all who live are back, and enough are here -----> running
    running   --- a failure, if restarts are left; a newcomer ----> gathering
    either    --- finished, used up, stopped, nobody came --------> over

The machine of the meeting point is a guest like the others: its launcher speaks through a pair of sockets. All that is
known about the job as a whole is here, and one thread changes it, so the machines never have to agree on anything.
docs/adr/0009-elastic-launcher.md has the reasons. A guest that cannot be reached may come back over a new connection
(docs/adr/0018-launchers-reconnect.md).
"""

from __future__ import annotations

import contextlib
import enum
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from fleet.errors import CommunicationError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet.conversation import GapError
from fleet.launch.meet.guest import Guest
from fleet.launch.meet.job_token import JobToken
from fleet.launch.meet.line import PROTOCOL, HungUpError
from fleet.launch.meet.lobby import Lobby, ReturningGuest, Visitor
from fleet.launch.meet.messages import NodeFailed, Offer
from fleet.launch.meet.reach import SLIP_S, SUSPECT_S, Patience, probe
from fleet.launch.meet.seats import choose, how_to_come, seat
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")

LAST_CALL_S = 3.0
"""How long nobody new must have come before a job begins with fewer machines than it may have."""
FAREWELL_S = 5.0
"""How long a machine that can be reached may take to hear that the job is over."""
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
        patience: Patience,
    ) -> None:
        """Begin to gather; `own` is what this machine brings, at index `rank`."""
        self._point = point
        self._nodes = nodes
        self._max_restart = max_restart
        self._token = token
        self._timeout_s = timeout_s
        self._patience = patience
        self._is_hurried = False
        self._selector = selectors.DefaultSelector()
        self._lobby = Lobby(listener, self._selector, nodes, own, token, self._holder_of, self._find)
        self.own_end, inner_end = socket.socketpair()
        """Where the launcher of this machine speaks and listens."""
        self._own = Guest(inner_end, "", rank, own, token)
        self._guests = [self._own]
        """In the order in which they came."""
        self._offers: list[Offer] = []
        self._restart = -1
        self._num_failures = 0
        self._selector.register(inner_end, selectors.EVENT_READ, self._own)
        self._gather("")
        self._thread = threading.Thread(target=self._run, name="meeting-point", daemon=True)
        self._thread.start()

    def close(self, is_hurried: Callable[[], bool]) -> None:
        """Wait until everybody has been told, or is given up; the launcher has closed its end.

        In a hurry, machines that cannot be reached are not waited for.
        """
        while self._thread.is_alive():
            self._thread.join(timeout=0.1)
            self._is_hurried = self._is_hurried or is_hurried()

    def _run(self) -> None:
        try:
            while self._own in self._guests:
                self._serve()
            if self._state is not _State.OVER:
                self._end(f"fleetrun was stopped at the meeting point {self._point}", 1)
            self._say_farewell()
        finally:
            self._leave()

    def _serve(self) -> None:
        tick_s = _TICK_S if self._state is _State.RUNNING else _GATHERING_TICK_S
        for key, _ in self._selector.select(tick_s):
            if isinstance(key.data, Guest):
                if key.fileobj is key.data.connection:  # and not replaced a moment ago
                    self._read(key.data)
            else:
                self._open_the_door(key.data)
        self._lobby.forget_the_silent()
        for guest in list(self._guests):
            self._look_after(guest)
        self._move_on()

    def _say_farewell(self) -> None:
        """Stay until every machine has heard the end, or is given up."""
        until = time.monotonic() + FAREWELL_S
        while untold := [guest for guest in self._guests if guest.conversation.has_unheard]:
            is_any_missed = any(guest.missed_since is not None for guest in untold)
            if time.monotonic() > until and (self._is_hurried or not is_any_missed):
                return
            self._serve()

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
            self._lobby.shut(_FULL)
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
        """Whether there may be another round, so that the door stays open for newcomers."""
        return self._max_restart > 0 or self._nodes.is_range

    def _could_grow(self) -> bool:
        """Whether somebody waits for whom there is room, and nobody has finished whose work would be done again."""
        members = self._stragglers()
        grown = choose((*members, *(guest for guest in self._guests if guest.is_waiting)), self._nodes.most)
        return len(grown) > len(members) and not any(member.is_done for member in members)

    def _stragglers(self) -> list[Guest]:
        """Members of the last round who have not come back; while a round runs, all of its members."""
        return [guest for guest in self._guests if guest.place is not None]

    def _holder_of(self, rank: int) -> str | None:
        """Before the first round a rank asked for twice is a mistake; later it may be a machine that comes again."""
        if self._restart >= 0:
            return None
        return next((guest.offer.host for guest in self._guests if guest.offer and guest.rank == rank), None)

    def _find(self, name: str) -> Guest | None:
        return next((guest for guest in self._guests if guest.name == name and guest is not self._own), None)

    def _open_the_door(self, visitor: Visitor | None) -> None:
        match self._lobby.serve(visitor):
            case Guest(connection=socket.socket() as connection) as guest:
                probe(connection, self._patience)
                self._selector.register(connection, selectors.EVENT_READ, guest)
                self._guests.append(guest)
                self._arrived_at = time.monotonic()
                guest.welcome()
                if self._state is _State.RUNNING:
                    self._tell(guest, say="wait")
            case ReturningGuest(guest, connection, session):
                probe(connection, self._patience)
                if not guest.welcome_back(self._selector, connection, session):
                    self._cut(guest)

    def _look_after(self, guest: Guest) -> None:
        """Notice that a machine cannot be reached, or can again, or is to be given up."""
        if (why := guest.why_given_up(self._patience)) is not None:
            self._lose(guest, why)
        elif guest.missed_since is None and guest.silent_s > SUSPECT_S:
            guest.missed_since = time.monotonic() - guest.silent_s
            log.warning("%s cannot be reached; waiting for it for up to %s", self._where(guest), self._patience)
        elif guest.missed_since is not None and guest.silent_s < SUSPECT_S / 2 and guest.connection is not None:
            missed_s = time.monotonic() - guest.missed_since
            guest.missed_since = None
            log.warning("%s can be reached again, after %.0f s", self._where(guest), missed_s)

    def _where(self, guest: Guest) -> str:
        if guest.place is not None:
            return f"machine {guest.place} ({self._offers[guest.place].host})"
        return "a machine" if guest.offer is None else guest.offer.host

    def _read(self, guest: Guest) -> None:
        try:
            for message in guest.messages():
                self._hear(guest, message)
        except HungUpError as error:
            self._lose(guest, str(error))
        except ConnectionError:  # it has ended with words unheard; or what lies between us has ended the connection
            guest.cut(self._selector, SLIP_S, "its fleetrun ended or the network broke")
        except (GapError, OSError):
            self._cut(guest)
        except Exception as error:  # of whatever kind: what one machine says must not end the meeting of the others
            self._lose(guest, f"it said what cannot be understood ({error})")

    def _cut(self, guest: Guest) -> None:
        """Close a guest's connection that is of no use any more, which may be the network's fault."""
        guest.cut(self._selector, self._patience.seconds, f"it could not be reached for {self._patience}")

    def _hear(self, guest: Guest, message: dict[str, Any]) -> None:
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

    def _lose(self, guest: Guest, why: str) -> None:
        """A machine is gone: one of the round that runs is a failure."""
        if guest not in self._guests:
            return
        self._guests.remove(guest)
        guest.cut(self._selector, 0.0, why)
        if guest.place is not None and guest is not self._own and self._state is _State.RUNNING:
            self._fail(NodeFailed(f"{self._where(guest)} is gone: {why}", 1, time.time()), guest)

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
        self._lobby.shut("the job has ended")  # who comes now is meant for another job
        for guest in self._guests:
            if guest not in but:
                self._tell_sealed(guest, say="over", reason=reason, code=code)

    def _tell_sealed(self, guest: Guest, **message: Any) -> None:
        """`_tell`, with a proof that we know the token where one was given."""
        if self._token.is_given:
            message["proof"] = self._token.seal("host", guest.session, {"protocol": PROTOCOL, **message})
        self._tell(guest, **message)

    def _tell(self, guest: Guest, **message: Any) -> None:
        if not guest.tell(**message):
            self._cut(guest)

    def _count_missing(self, num_here: int) -> tuple[int, str]:
        least = f"at least {self._nodes.least}" if self._nodes.is_range else str(self._nodes.least)
        return max(self._nodes.least - num_here, len(self._stragglers())), least

    def _what_is_missing(self, num_here: int) -> str:
        missing, of = self._count_missing(num_here)
        return f"waited for {missing} of {of} machines at {self._point}; {how_to_come(self._point)}"

    def _leave(self) -> None:
        self._lobby.close()
        for guest in self._guests:
            if guest.connection is None:
                continue
            # A connection that is closed with words unheard takes back what it has not delivered yet.
            guest.connection.setblocking(False)
            with contextlib.suppress(OSError):
                while guest.connection.recv(1 << 16):
                    pass
            guest.connection.close()
        self._selector.close()
