"""Calls of a worker to its servers that survive a lost connection: sent again, with growing pauses, until a deadline.

That is safe because nothing a worker sends is harmed by repetition: a pull changes nothing, and a push carries its
sequence number (proto/ps.proto).
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet.errors import CommunicationError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.transport import Transport
    from fleet.ps.wire import Tensors

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


class Call:
    """One call to one server, under way since it was made."""

    def __init__(
        self, transport: Transport, method: str, header: Message, tensors: Tensors, timeout_s: float, patience_s: float
    ) -> None:
        """`timeout_s` is for one attempt, `patience_s` for reaching the server at all."""
        self._transport = transport
        self._request = (method, header, tensors, timeout_s)
        self._patience_s = patience_s
        self._answer = transport.call(*self._request)

    def result(self) -> tuple[Message, Tensors]:
        """The answer; an error names the endpoint."""
        deadline: float | None = None
        pause_s = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            try:
                return self._answer.result()
            except CommunicationError as error:
                if not getattr(error, "retryable", False):
                    raise
                now = time.monotonic()
                if deadline is None or now - started > self._patience_s:  # the server was there in between
                    deadline, pause_s = now + self._patience_s, FIRST_PAUSE_S
                if now + pause_s > deadline:
                    given_up = CommunicationError(f"{error}; tried for {self._patience_s:g} s (FLEET_RPC_TIMEOUT_S)")
                    given_up.retryable = True
                    raise given_up from None
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # not all workers at once
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self._answer = self._transport.call(*self._request)


def results(calls: Sequence[Call]) -> list[tuple[Message, Tensors]]:
    """Every answer, in order."""
    return [call.result() for call in calls]
