"""The meeting point of a job: a thread in the launcher of its machine, to which every launcher has one connection.

    gathering --- all who live are back, and enough are here -----> running
    running   --- a failure, if restarts are left; a newcomer ----> gathering
    running   --- a durable job's machine ends, and comes back ---> running
    either    --- finished, used up, stopped, nobody came --------> over

The machine of the meeting point is a guest like the others: its launcher speaks through a pair of sockets. All that is
known about the job as a whole is here, and one thread changes it, so the machines never have to agree on anything.
docs/adr/0009-elastic-launcher.md has the reasons. A guest that cannot be reached may come back over a new connection
(docs/adr/0018-launchers-reconnect.md).
"""

from __future__ import annotations

import enum
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fleet.errors import CommunicationError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet.guest import Guest
from fleet.launch.meet.guests import Guests, own_guest
from fleet.launch.meet.job_token import JobToken
from fleet.launch.meet.lobby import Lobby
from fleet.launch.meet.messages import NodeFailed, Offer, Scaled
from fleet.launch.meet.reach import Patience
from fleet.launch.meet.seats import choose, how_to_come, seat, what_is_missing
from fleet.launch.standby.keeper import Keeper
from fleet.launch.standby.orders import MachineAccount
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


@dataclass(frozen=True)
class FormerMeeting:
    """What is left of a meeting point that was lost, for the launcher that takes its place."""

    keeper: Keeper
    restart: int
    offers: tuple[Offer, ...]
    place: int
    """This machine's index."""
    guests: tuple[Guest, ...]
    """The others that have come, with their places."""


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
        former: FormerMeeting | None = None,
    ) -> None:
        """Begin to gather; `own` is what this machine brings, at index `rank`. Or go on where another one has ended."""
        self._point = point
        self._nodes = nodes
        self._max_restart = max_restart
        self._token = token
        self._timeout_s = timeout_s
        self._is_hurried = False
        self._own, self.own_end = own_guest(rank, token, own)
        """`own_end` is where the launcher of this machine speaks and listens."""
        selector = selectors.DefaultSelector()
        self._all = Guests(self._own, token, patience, selector, self._came, self._hear, self._lose, self._where)
        self._all.lobby = Lobby(listener, selector, nodes, own, token, self._holder_of, self._all.find)
        self._guests = self._all.all
        """In the order in which they came."""
        self._offers: list[Offer] = []
        self._restart = -1
        self._num_failures = 0
        self._keeper: Keeper | None = None
        """Decides about terms, in a job whose servers have copies; there when the first machine has accounted."""
        self._lost_early: dict[int, str] = {}
        self._patience = patience
        self._vacant: dict[int, tuple[float, str]] = {}
        """Seats that are kept for machines that have ended: until when, and what to say then."""
        self._gather("")
        if former is not None:
            self._go_on(former)
        self._thread = threading.Thread(target=self._run, name="meeting-point", daemon=True)
        self._thread.start()

    def _go_on(self, former: FormerMeeting) -> None:
        """Be in the round that runs, with those who have come from the meeting point that is lost."""
        self._state = _State.RUNNING
        self._restart, self._offers, self._keeper = former.restart, list(former.offers), former.keeper
        self._own.place, self._own.offer = former.place, None
        self._all.lobby.shut(_FULL)
        for guest in former.guests:
            self._all.welcome(guest)
        self._direct(former.keeper)

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
            self._all.say_farewell(lambda: self._is_hurried, self._serve)
        finally:
            self._all.close()

    def _serve(self) -> None:
        self._all.serve(_TICK_S if self._state is _State.RUNNING else _GATHERING_TICK_S)
        self._move_on()

    def _move_on(self) -> None:
        now = time.monotonic()
        if self._state is _State.GATHERING:
            chosen = choose((guest for guest in self._guests if guest.is_waiting), self._nodes.most)
            is_full = len(chosen) == self._nodes.most
            is_quiet = now - self._arrived_at > LAST_CALL_S or now > self._deadline
            is_enough = len(chosen) >= self._nodes.least and is_quiet
            stragglers = self._all.members
            missing = what_is_missing(self._nodes, len(chosen), len(stragglers))
            if not stragglers and (is_full or is_enough):
                self._begin(seat(chosen, self._nodes.most))
            elif now > self._deadline + (STOPPING_S if stragglers else 0.0):
                self._end(f"waited for {missing} machines at {self._point}; {how_to_come(self._point)}", 1)
            elif now > self._remind_at:
                self._remind_at += _REMIND_S
                log.info("waiting at %s for %s machines", self._point, missing)
        elif gone := next((gone for until, gone in self._vacant.values() if now > until), ""):
            self._fail(NodeFailed(gone, 1, time.time()))
        elif self._state is _State.RUNNING and self._could_grow():
            came = ", ".join(guest.offer.host for guest in self._guests if guest.offer is not None)
            self._gather(f"a machine has come ({came})")
            for member in self._all.members:
                self._all.tell(member, say="regroup", why=self._why)

    def _gather(self, why: str) -> None:
        """Wait for all machines that are still connected, and for newcomers."""
        now = time.monotonic()
        self._state = _State.GATHERING
        self._vacant.clear()
        self._why = why
        self._arrived_at = now
        self._deadline = now + self._timeout_s
        self._remind_at = now + _REMIND_S

    def _begin(self, members: list[Guest]) -> None:
        """Tell everybody who takes part; those for whom there is no room go on waiting."""
        self._state = _State.RUNNING
        self._restart += 1
        self._offers = [guest.offer for guest in members if guest.offer is not None]
        for guest in [guest for guest in self._guests if guest not in members]:
            if self._goes_on:
                self._all.tell(guest, say="wait")
            else:
                self._all.tell_sealed(guest, say="over", reason=_FULL, code=2)
        if not self._goes_on:
            self._all.lobby.shut(_FULL)
        self._own.place = members.index(self._own)
        for place, guest in enumerate(members):
            self._give_seat(guest, place)

    def _give_seat(self, guest: Guest, place: int) -> None:
        guest.place, guest.offer, guest.is_done = place, None, False
        listed = [offer.to_json() for offer in self._offers]
        begin = {"say": "begin", "rank": place, "host": self._own.place, "offers": listed}
        begin |= {"restart": self._restart, "failures": self._num_failures, "why": self._why}
        if not self._token.is_given:
            self._all.tell(guest, **begin, token=self._token.value)
        else:
            self._all.tell_sealed(guest, **begin)

    @property
    def _goes_on(self) -> bool:
        """Whether there may be another round, so that the door stays open for newcomers."""
        return self._max_restart > 0 or self._nodes.is_range

    def _could_grow(self) -> bool:
        """Whether somebody waits for whom there is room, and nobody has finished whose work would be done again."""
        if self._vacant:
            return False
        members = self._all.members
        grown = choose((*members, *(guest for guest in self._guests if guest.is_waiting)), self._nodes.most)
        return len(grown) > len(members) and not any(member.is_done for member in members)

    def _holder_of(self, rank: int) -> str | None:
        """Before the first round a rank asked for twice is a mistake; later it may be a machine that comes again."""
        if self._restart >= 0:
            return None
        return next((guest.offer.host for guest in self._guests if guest.offer and guest.rank == rank), None)

    def _came(self, guest: Guest) -> None:
        self._arrived_at = time.monotonic()
        if self._vacant:
            self._take_seat(guest)
        elif self._state is _State.RUNNING:
            self._all.tell(guest, say="wait")

    def _take_seat(self, guest: Guest) -> None:
        """Have a machine that has ended go on in its seat; others know where its processes listen."""
        assert guest.offer is not None
        for place in self._vacant:
            former = self._offers[place]
            sizes = [(offer.host, len(offer.servers), len(offer.workers)) for offer in (former, guest.offer)]
            if guest.rank in (None, place) and sizes[0] == sizes[1]:
                del self._vacant[place]
                if not self._vacant:
                    self._all.lobby.shut(_FULL)
                self._give_seat(guest, place)
                log.warning("%s is back", self._where(guest))
                return
        hosts = " and ".join(self._offers[place].host for place in self._vacant)
        reason = f"the job runs, and waits for {hosts} to come back; start fleetrun there as it was started before"
        self._all.tell_sealed(guest, say="over", reason=reason, code=2)

    def _where(self, guest: Guest) -> str:
        if guest.place is not None:
            return f"machine {guest.place} ({self._offers[guest.place].host})"
        return "a machine" if guest.offer is None else guest.offer.host

    def _hear(self, guest: Guest, message: dict[str, Any]) -> None:
        match message.get("say"):
            case "account" if self._state is _State.RUNNING and guest.place is not None:
                account = MachineAccount.from_json(message)
                self._keeper = self._keeper or self._make_keeper(account)
                self._keeper.hear(guest.place, account)
                self._direct(self._keeper)
            case "done" if self._keeper is None:
                guest.is_done = guest.place is not None
                is_all = not self._vacant and all(member.is_done for member in self._all.members)
                if self._state is _State.RUNNING and is_all:
                    self._finish()
            case "failed":
                self._fail(NodeFailed.from_json(message), guest)
            case "scale" if self._state is _State.RUNNING:
                told = Scaled.from_json(message).to_json()
                for member in self._all.members:
                    self._all.tell(member, **told)
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
        if guest.place is None or guest is self._own or self._state is not _State.RUNNING:
            return
        gone = f"{self._where(guest)} is gone: {why}"
        if self._keeper is None and self._offers[guest.place].door is not None:
            self._lost_early[guest.place] = gone
        elif self._patience.keeps_seats and guest.missed_since is None and not guest.is_done:
            self._vacant[guest.place] = time.monotonic() + self._patience.seconds, gone
            self._all.lobby.open()
            log.warning("%s; it may come back within %s", gone, self._patience)
        elif self._keeper is None:
            self._fail(NodeFailed(gone, 1, time.time()), guest)
        else:
            self._keeper.lose(guest.place, gone)
            self._direct(self._keeper)

    def _make_keeper(self, account: MachineAccount) -> Keeper:
        keeper = Keeper(self._own.place or 0, account.orders)
        for place, gone in self._lost_early.items():
            keeper.lose(place, gone)
        return keeper

    def _direct(self, keeper: Keeper) -> None:
        """Tell the machines what follows from what is known of them now."""
        if (orders := keeper.decide()) is not None:
            for member in self._all.members:
                self._all.tell(member, say="orders", orders=orders.to_json())
        if keeper.end is not None:
            self._fail(NodeFailed(keeper.end, 1, time.time()))
        elif keeper.orders.is_over:
            self._finish()

    def _fail(self, failure: NodeFailed, guest: Guest | None = None) -> None:
        for member in self._all.members:
            if member is not guest:
                self._all.tell(member, **failure.to_json())
        if failure.is_final:
            self._end(f"the job was ended: {failure.what}", failure.code)
        elif self._state is _State.RUNNING:
            self._num_failures += 1
            self._gather(failure.what)
            if self._num_failures > self._max_restart:
                times = "once" if self._num_failures == 1 else f"{self._num_failures} times"
                self._end(f"the job has failed {times} and --max_restart is {self._max_restart}: {failure.what}", None)

    def _finish(self) -> None:
        for member in self._all.members:
            self._all.tell(member, say="all done")
        self._end("the job has finished; this machine was not needed", 0, but=self._all.members)

    def _end(self, reason: str, code: int | None, but: Iterable[Guest] = ()) -> None:
        """There is no other round. Without a code, a machine ends with that of the failure it has seen."""
        if self._state is _State.OVER:
            return
        self._state = _State.OVER
        self._all.lobby.shut("the job has ended")  # who comes now is meant for another job
        for guest in self._guests:
            if guest not in but:
                self._all.tell_sealed(guest, say="over", reason=reason, code=code)
