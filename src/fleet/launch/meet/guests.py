"""All connections of the meeting point: guests come in, speak, are out of reach, come back, and are lost."""

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleet.launch.meet.conversation import GapError
from fleet.launch.meet.guest import Guest
from fleet.launch.meet.job_token import JobToken
from fleet.launch.meet.line import PROTOCOL, HungUpError
from fleet.launch.meet.lobby import Lobby, ReturningGuest, Visitor
from fleet.launch.meet.messages import Offer
from fleet.launch.meet.reach import SLIP_S, Patience, probe

FAREWELL_S = 5.0
"""How long a machine that can be reached may take to hear that the job is over."""


@dataclass(eq=False)
class Guests:
    """Who is at the meeting point, in the order in which they came; the first is the launcher beside it."""

    own: Guest
    token: JobToken
    patience: Patience
    selector: selectors.BaseSelector
    came: Callable[[Guest], None]
    heard: Callable[[Guest, dict[str, Any]], None]
    lost: Callable[[Guest, str], None]
    """Told when it is not among `all` any more."""
    where: Callable[[Guest], str]
    """What to call it in the log."""
    all: list[Guest] = field(default_factory=list, init=False)
    lobby: Lobby = field(init=False)
    """The door, which has to be set before `serve`."""

    def __post_init__(self) -> None:
        self._take(self.own)

    @property
    def members(self) -> list[Guest]:
        """Members of the last round who have not come back; while a round runs, all of its members."""
        return [guest for guest in self.all if guest.place is not None]

    def find(self, name: str) -> Guest | None:
        """The guest of this name, if it is another machine's."""
        return next((guest for guest in self.all if guest.name == name and guest is not self.own), None)

    def serve(self, tick_s: float) -> None:
        """Hear what has come, waiting this long for it, and see who can be reached."""
        for key, _ in self.selector.select(tick_s):
            if isinstance(key.data, Guest):
                if key.fileobj is key.data.connection:  # and not replaced a moment ago
                    self._read(key.data)
            else:
                self._open_the_door(key.data)
        self.lobby.forget_the_silent()
        for guest in list(self.all):
            self._look_after(guest)

    def welcome(self, guest: Guest) -> None:
        """Take in a guest that was admitted."""
        assert guest.connection is not None
        probe(guest.connection, self.patience)
        self._take(guest)

    def tell(self, guest: Guest, **message: Any) -> None:
        """Say something that it will hear, if it comes back at all."""
        if not guest.tell(**message):
            self._cut(guest)

    def tell_sealed(self, guest: Guest, **message: Any) -> None:
        """`tell`, with a proof that we know the token where one was given."""
        if self.token.is_given:
            message["proof"] = self.token.seal("host", guest.session, {"protocol": PROTOCOL, **message})
        self.tell(guest, **message)

    def say_farewell(self, is_hurried: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Stay until every machine has heard the end, or is given up; in a hurry nobody out of reach is waited for."""
        until = time.monotonic() + FAREWELL_S
        while untold := [guest for guest in self.all if guest.conversation.has_unheard]:
            is_any_missed = any(guest.missed_since is not None for guest in untold)
            if time.monotonic() > until and (is_hurried() or not is_any_missed):
                return
            tick()

    def close(self) -> None:
        """End all connections."""
        self.lobby.close()
        for guest in self.all:
            guest.leave()
        self.selector.close()

    def _take(self, guest: Guest) -> None:
        assert guest.connection is not None
        self.selector.register(guest.connection, selectors.EVENT_READ, guest)
        self.all.append(guest)

    def _open_the_door(self, visitor: Visitor | None) -> None:
        match self.lobby.serve(visitor):
            case Guest() as guest:
                self.welcome(guest)
                guest.welcome()
                self.came(guest)
            case ReturningGuest(guest, connection, session):
                probe(connection, self.patience)
                if not guest.welcome_back(self.selector, connection, session):
                    self._cut(guest)

    def _look_after(self, guest: Guest) -> None:
        """Notice that a machine cannot be reached, or can again, or is to be given up."""
        if (why := guest.why_given_up(self.patience)) is not None:
            self._lose(guest, why)
        else:
            guest.notice(self.where(guest), self.patience)

    def _read(self, guest: Guest) -> None:
        try:
            for message in guest.messages():
                self.heard(guest, message)
        except HungUpError as error:
            self._lose(guest, str(error))
        except ConnectionError:  # it has ended with words unheard; or what lies between us has ended the connection
            guest.cut(self.selector, SLIP_S, "its fleetrun ended or the network broke")
        except (GapError, OSError):
            self._cut(guest)
        except Exception as error:  # of whatever kind: what one machine says must not end the meeting of the others
            self._lose(guest, f"it said what cannot be understood ({error})")

    def _cut(self, guest: Guest) -> None:
        """Close a guest's connection that is of no use any more, which may be the network's fault."""
        guest.cut(self.selector, self.patience.seconds, f"it could not be reached for {self.patience}")

    def _lose(self, guest: Guest, why: str) -> None:
        if guest in self.all:
            self.all.remove(guest)
            guest.cut(self.selector, 0.0, why)
            self.lost(guest, why)


def own_guest(rank: int, token: JobToken, offer: Offer) -> tuple[Guest, socket.socket]:
    """The launcher beside the meeting point as a guest, and the end where it speaks and listens."""
    own_end, inner_end = socket.socketpair()
    return Guest(inner_end, "", rank, offer, token), own_end
