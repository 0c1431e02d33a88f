"""A launcher's connection to the meeting point, which it makes anew when the network has broken it.

As long as a machine cannot be reached, its kernel does not say whether anything there lives. So the launcher keeps the
old connection, tries a new one every second or two, and goes on over whichever answers first. A meeting point that
refuses to be connected to has ended. docs/adr/0018-launchers-reconnect.md has the reasons.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.errors import CommunicationError
from fleet.launch.meet.conversation import Conversation
from fleet.launch.meet.guests import FAREWELL_S
from fleet.launch.meet.host import Host
from fleet.launch.meet.job_token import JobToken, is_nonce, new_nonce
from fleet.launch.meet.line import PROTOCOL, CutOffError, DismissedError, HungUpError, MessageLine
from fleet.launch.meet.reach import SLIP_S, SUSPECT_S, Patience, probe, silent_s
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")

_LOOK_S = 1.0
_TRY_S = 2.0
"""How long one attempt to come back may take, and how long each answer there may."""
_PAUSE_S = 0.2
_TICK_S = 0.01


@dataclass(frozen=True)
class ReturnTicket:
    """By what the meeting point knows this launcher again."""

    name: str
    key: JobToken


class Link:
    """A launcher's conversation with the meeting point."""

    def __init__(
        self,
        point: Endpoint,
        address: str,
        line: MessageLine,
        patience: Patience,
        session: str = "",
        seat: ReturnTicket | None = None,
        host: Host | None = None,
    ) -> None:
        """`session` names the conversation, for seals; it is empty where no token was given, and beside the host.

        Without a seat there is no coming back; beside the host there is no need to.
        """
        self.point = point
        self.address = address
        """This machine's address in the job."""
        self.session = session
        self.host = host
        """The meeting point itself, if it is here."""
        self._line = line
        self._patience = patience
        self._seat = seat
        self._conversation = Conversation()
        self._restart = -1
        """The last round that began, as far as was heard."""
        self._broken: HungUpError | CutOffError | None = None
        self._broken_at = 0.0
        self._missed_since: float | None = None
        self._left: list[MessageLine] = []
        """Connections that the meeting point may still take for ours; closed now, they would look like our end."""
        self._has_ended = False
        self._is_closing = False
        self._speaking = threading.Lock()
        """Messages leave in the order of their numbers, also over a new connection."""
        self._is_over = threading.Event()

    @property
    def is_sealed(self) -> bool:
        """Whether the other side has a token to prove."""
        return self.session != ""

    @property
    def has_ended(self) -> bool:
        """Whether the job is over, as far as was heard, so that nobody need come back."""
        return self._has_ended

    def send(self, **message: Any) -> None:
        """Say something; the meeting point hears it once, if it can be reached in time."""
        with self._speaking:
            self._line.send(**self._conversation.say(message))

    def receive(self) -> dict[str, Any]:
        """The next message; CommunicationError, which says why, if the meeting point is gone."""
        try:
            while True:
                message = self._next()
                if self._conversation.hear(message):
                    if message.get("say") == "begin" and isinstance(message.get("restart"), int):
                        self._restart = message["restart"]
                    self._has_ended = message.get("say") in ("over", "all done")
                    self._line.send(heard=self._conversation.num_heard)
                    return message
        except BaseException:
            self._is_over.set()
            raise

    def close(self, is_hurried: Callable[[], bool]) -> None:
        """Leave, when the meeting point has heard what was said; in a hurry it is not waited for if out of reach.

        The host, if it is here, ends as soon as everybody has been told.
        """
        until = time.monotonic() + FAREWELL_S
        while self._conversation.has_unheard and not self._is_over.is_set():
            if time.monotonic() > until and (self._missed_since is None or is_hurried()):
                break
            time.sleep(_TICK_S)
        self._is_closing = True
        self._line.shut()
        if self.host is not None:
            self.host.close(is_hurried)

    def release(self) -> None:
        """Close what `close` has ended; nobody is in `receive` any more."""
        for line in (*self._left, self._line):
            line.close()

    def _next(self) -> dict[str, Any]:
        while True:
            if self._broken is None:
                try:
                    if self._line.is_ready(_LOOK_S):
                        return self._line.receive()
                except (HungUpError, CutOffError) as error:
                    self._broken, self._broken_at = error, time.monotonic()
                    self._missed_since = self._missed_since or time.monotonic()
            if self._is_closing:
                raise HungUpError("this machine has left")
            if self._broken is not None or self._is_missed():
                self._come_back()

    def _is_missed(self) -> bool:
        """Whether the meeting point cannot be reached; the log says when that begins and ends."""
        quiet_s = silent_s(self._line.socket)
        if self._missed_since is None and quiet_s > SUSPECT_S:
            self._missed_since = time.monotonic() - quiet_s
            log.warning("the meeting point %s cannot be reached; trying for up to %s", self.point, self._patience)
        elif self._missed_since is not None and quiet_s < SUSPECT_S / 2:
            self._found()
        return self._missed_since is not None

    def _found(self) -> None:
        assert self._missed_since is not None
        missed_s = time.monotonic() - self._missed_since
        self._missed_since = None
        if missed_s > SUSPECT_S:
            log.warning("the meeting point %s can be reached again, after %.0f s", self.point, missed_s)

    def _come_back(self) -> None:
        """Try once to go on over a new connection; HungUpError if there is no sense in trying again."""
        if self._seat is None or (self._has_ended and self._broken is not None):
            raise HungUpError("its fleetrun ended" if self._broken is None else str(self._broken))
        try:
            self._replace(self._seat)
        except ConnectionRefusedError:
            raise HungUpError("its fleetrun ended") from None
        except (OSError, HungUpError, CutOffError):
            assert self._missed_since is not None
            now = time.monotonic()
            if isinstance(self._broken, HungUpError) and now > self._broken_at + SLIP_S:
                raise HungUpError("its fleetrun ended or the network broke") from None
            if now > self._missed_since + self._patience.seconds:
                raise HungUpError(f"it could not be reached for {self._patience}") from None
            time.sleep(_PAUSE_S)

    def _replace(self, seat: ReturnTicket) -> None:
        connection = socket.create_connection((self.point.host, self.point.port), timeout=_TRY_S)
        line = MessageLine(connection)
        try:
            self._prove(line, seat)
        except BaseException:
            if line not in self._left:
                line.close()
            raise
        connection.settimeout(None)
        probe(connection, self._patience)
        with self._speaking:
            self._left[self._left.index(line)] = self._line
            self._line, self._broken = line, None
            for message in self._conversation.unheard():
                line.send(**message)
        while self._left:
            self._left.pop().close()
        if self._missed_since is not None:
            self._found()
        if self._is_closing:
            line.shut()

    def _prove(self, line: MessageLine, seat: ReturnTicket) -> None:
        """Say who we are and how far we have heard, and hear how far we were heard."""
        nonce = new_nonce()
        line.send(protocol=PROTOCOL, back=seat.name, nonce=nonce)
        asked = self._answer(line)
        if not is_nonce(asked.get("challenge")):
            raise CommunicationError("another program listens there now")
        session = seat.name + asked["challenge"] + nonce
        said = {"heard": self._conversation.num_heard, "restart": self._restart}
        self._left.append(line)
        line.send(protocol=PROTOCOL, **said, proof=seat.key.seal("return", session, said))
        welcome = self._answer(line)
        expected = {"say": "welcome", "heard": welcome.get("heard")}
        if not seat.key.fits(welcome.get("proof"), "welcome back", session, expected):
            raise CommunicationError("another program listens there now")
        self._conversation.acknowledge(welcome["heard"])

    def _answer(self, line: MessageLine) -> dict[str, Any]:
        answer = line.receive()
        if answer.get("protocol") != PROTOCOL or "error" in answer:
            raise DismissedError(str(answer.get("error", "another program listens there now")))
        return answer
