"""One side of a conversation that survives its connection: what is said has a number, and is kept until it was heard.

Whoever comes back says how far it has heard; the rest is said again. So nothing is lost, and nothing happens twice.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from fleet.errors import CommunicationError

Message = dict[str, Any]


class GapError(CommunicationError):
    """A message is missing: a signal came in between when it was sent. It is kept, and comes with a new connection."""


class Conversation:
    """What one launcher has said to another, and what it has heard from it; any thread may speak."""

    def __init__(self) -> None:
        self.num_heard = 0
        """The number of the last message that came from the other side."""
        self._num_said = 0
        self._unheard: deque[tuple[float, Message]] = deque()
        """When each was said, and the message with its number."""
        self._lock = threading.Lock()

    @property
    def has_unheard(self) -> bool:
        """Whether the other side may not know something yet."""
        return len(self._unheard) > 0

    @property
    def num_said(self) -> int:
        """The number of the last message from here."""
        return self._num_said

    def say(self, message: Mapping[str, Any]) -> Message:
        """The message with its number, kept from now on."""
        with self._lock:
            self._num_said += 1
            numbered = {**message, "n": self._num_said}
            self._unheard.append((time.monotonic(), numbered))
            return numbered

    def unheard(self) -> list[Message]:
        """What to say again; a failure has become older meanwhile."""
        now = time.monotonic()
        with self._lock:
            kept = list(self._unheard)
        return [
            message | ({"age_s": message["age_s"] + now - said_at} if "age_s" in message else {})
            for said_at, message in kept
        ]

    def hear(self, message: Message) -> bool:
        """Take the number off a message; False if there is nothing to do about it: an acknowledgement, or heard before.

        GapError if a message is missing before this one; CommunicationError if its number is none.
        """
        if "heard" in message and "say" not in message:
            self.acknowledge(message["heard"])
            return False
        number = message.pop("n", None)
        if number is None:
            return True
        if type(number) is not int:
            raise CommunicationError(f"message {number!r} came after {self.num_heard}")
        if number > self.num_heard + 1:
            raise GapError(f"message {number} came after {self.num_heard}")
        if number <= self.num_heard:
            return False
        self.num_heard = number
        return True

    def acknowledge(self, number: object) -> None:
        """The other side has heard everything up to this number; CommunicationError if that was never said."""
        if type(number) is not int or not 0 <= number <= self._num_said:
            raise CommunicationError(f"it has heard message {number} of {self._num_said}")
        with self._lock:
            while self._unheard and self._unheard[0][1]["n"] <= number:
                self._unheard.popleft()
