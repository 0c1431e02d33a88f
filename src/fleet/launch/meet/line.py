"""A connection between two launchers: JSON objects, one a line."""

import contextlib
import json
import select
import socket
import threading
from typing import Any

from fleet.errors import CommunicationError

PROTOCOL = "fleetrun/6"
MAX_LINE_BYTES = 1 << 20


class HungUpError(CommunicationError):
    """The other side has closed the connection, or its process has ended."""


class CutOffError(CommunicationError):
    """The connection broke; that says nothing about the other side."""


class DismissedError(CommunicationError):
    """The meeting point does not want this launcher, or is another program."""


class MessageLine:
    """A connection that carries one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._heard = b""
        self._sending = threading.Lock()

    def send(self, **message: Any) -> None:
        """Send one message; a connection that is gone is noticed by the reader, not here."""
        with contextlib.suppress(OSError), self._sending:
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def is_ready(self, timeout_s: float) -> bool:
        """Whether `receive` has something to read, be it the end, after waiting this long for it."""
        if b"\n" in self._heard:
            return True
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(1000 * timeout_s))

    def receive(self) -> dict[str, Any]:
        """The next message; CommunicationError if the connection ends or what comes is not one."""
        while b"\n" not in self._heard:
            chunk = self._read()
            self._heard += chunk
            if not chunk or len(self._heard) > MAX_LINE_BYTES:
                raise CommunicationError("not a message of fleetrun") if self._heard else HungUpError("it hung up")
        text, _, self._heard = self._heard.partition(b"\n")
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CommunicationError(str(error)) from error
        if not isinstance(message, dict):
            raise CommunicationError("not a message of fleetrun")
        return message

    def _read(self) -> bytes:
        try:
            return self.socket.recv(1 << 16)
        except ConnectionError as error:
            raise HungUpError(str(error)) from error
        except OSError as error:
            raise CutOffError(str(error)) from error

    def shut(self) -> None:
        """End the conversation; whoever waits in `is_ready` or `receive` wakes."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection; nobody waits for it any more."""
        self.shut()
        self.socket.close()
