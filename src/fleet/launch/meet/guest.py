"""A launcher as the meeting point sees it: its connection, which may break and be replaced, and what was said to it."""

import contextlib
import json
import logging
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import CommunicationError
from fleet.launch.meet.conversation import Conversation, Message
from fleet.launch.meet.job_token import JobToken, new_nonce
from fleet.launch.meet.line import MAX_LINE_BYTES, PROTOCOL, HungUpError
from fleet.launch.meet.messages import Offer
from fleet.launch.meet.reach import SUSPECT_S, Patience, silent_s

log = logging.getLogger("fleetrun")


@dataclass(eq=False)
class Guest:
    """A launcher that was admitted."""

    connection: socket.socket | None
    """None after its connection broke, until it comes back."""
    session: str
    """Names the conversation, for seals; empty where no token was given."""
    rank: int | None
    """The index it asked for."""
    offer: Offer | None
    """What it brings to the next round; None while it is in one."""
    key: JobToken
    """By which it proves that it is the same launcher when it comes back."""
    place: int | None = None
    """Its index in the round that runs."""
    is_done: bool = False
    heard: bytes = b""
    name: str = field(default_factory=new_nonce)
    """By which it is found when it comes back; not a secret."""
    conversation: Conversation = field(default_factory=Conversation)
    begun: list[tuple[int, int]] = field(default_factory=list)
    """The number of each message that began a round, and which."""
    missed_since: float | None = None
    """Since when it cannot be reached, if that was noticed."""
    _cut_at: float = 0.0
    _come_by: float = 0.0
    _broke_by: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether it is ready for the next round."""
        return self.offer is not None

    @property
    def silent_s(self) -> float:
        """For how long it could not be reached."""
        return time.monotonic() - self._cut_at if self.connection is None else silent_s(self.connection)

    def why_given_up(self, patience: Patience) -> str | None:
        """What to say of it if it could not be reached for too long."""
        if self.connection is None:
            return self._broke_by if time.monotonic() > self._come_by else None
        return f"it could not be reached for {patience}" if self.silent_s > patience.seconds else None

    def notice(self, where: str, patience: Patience) -> None:
        """Say that it cannot be reached, or can again."""
        if self.missed_since is None and self.silent_s > SUSPECT_S:
            self.missed_since = time.monotonic() - self.silent_s
            log.warning("%s cannot be reached; waiting for it for up to %s", where, patience)
        elif self.missed_since is not None and self.silent_s < SUSPECT_S / 2 and self.connection is not None:
            missed_s = time.monotonic() - self.missed_since
            self.missed_since = None
            log.warning("%s can be reached again, after %.0f s", where, missed_s)

    def round_after(self, num_heard: int) -> int:
        """The round it must be in if it has heard so many messages; -1 before the first."""
        return next((restart for number, restart in reversed(self.begun) if number <= num_heard), -1)

    def tell(self, **message: Any) -> bool:
        """Say something that it will hear, if it comes back at all; False if its connection is of no use any more."""
        if message.get("say") == "begin":
            self.begun.append((self.conversation.num_said + 1, message["restart"]))
        numbered = self.conversation.say(message)
        return self.connection is None or say(self.connection, **numbered)

    def messages(self) -> Iterator[Message]:
        """What it has to say now, of which the selector has told; HungUpError if it has left.

        OSError if the connection broke, CommunicationError if it said what is no message.
        """
        assert self.connection is not None
        chunk = self.connection.recv(1 << 16)
        if not chunk:
            raise HungUpError("its fleetrun ended")
        *lines, self.heard = (self.heard + chunk).split(b"\n")
        num_heard = self.conversation.num_heard
        for line in lines:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise CommunicationError("not a message of fleetrun")
            if self.conversation.hear(message):
                yield message
        if len(self.heard) > MAX_LINE_BYTES:
            raise CommunicationError("a message without end")
        if self.conversation.num_heard > num_heard:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Say how far it was heard; if that is lost, its return brings it."""
        if self.connection is not None and not say(self.connection, heard=self.conversation.num_heard):
            raise TimeoutError("it takes nothing")

    def cut(self, selector: selectors.BaseSelector, wait_s: float, why: str) -> None:
        """Close a connection that is of no use any more; the guest may come back with another, until it is given up."""
        if self.connection is not None:
            selector.unregister(self.connection)
            self.connection.close()
            self.connection = None
        self.heard = b""
        self._cut_at = time.monotonic()
        self._come_by = self._cut_at + wait_s
        self._broke_by = why

    def leave(self) -> None:
        """Close its connection; one that is closed with words unheard takes back what it has not delivered yet."""
        if self.connection is None:
            return
        self.connection.setblocking(False)
        with contextlib.suppress(OSError):
            while self.connection.recv(1 << 16):
                pass
        self.connection.close()

    def welcome(self) -> None:
        """Tell it how to come back; what will prove that it is the same never travels where a token was given."""
        assert self.connection is not None
        say(self.connection, say="welcome", name=self.name, **({} if self.key.is_given else {"ticket": self.key.value}))

    def welcome_back(self, selector: selectors.BaseSelector, connection: socket.socket, session: str) -> bool:
        """Go on over a new connection, with what was not heard over the old one; False if that is broken too."""
        self.cut(selector, 0.0, "")
        self.connection = connection
        selector.register(connection, selectors.EVENT_READ, self)
        welcome = {"say": "welcome", "heard": self.conversation.num_heard}
        sealed = {**welcome, "proof": self.key.seal("welcome back", session, welcome)}
        return all(say(connection, **message) for message in (sealed, *self.conversation.unheard()))


def say(connection: socket.socket, **message: Any) -> bool:
    """Send one line; False if the connection is of no use any more. That the other side has left, its reader hears."""
    try:
        connection.sendall(json.dumps({"protocol": PROTOCOL, **message}).encode() + b"\n")
    except ConnectionError:
        return True
    except OSError:
        return False
    return True
