"""Calls of a worker to its servers that survive a lost connection: sent again, with growing pauses, until a deadline.

That is safe because nothing a worker sends is harmed by repetition: a pull changes nothing, and a push carries its
sequence number (proto/ps.proto). However often it is sent, nobody waits for a call longer than its time limit; and
a long wait is reported.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.errors import CommunicationError, DeadlineError, FleetError, MovedError
from fleet.observe.tracing.tracer import tracer
from fleet.observe.waits.waiting import Awaited, LongWait
from fleet.ps.job.patience import rpc_timeout_name
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.status import unreachable
from fleet.ps.wire.traced import WireSpan, is_marked
from fleet.ps.wire.transport import Transport

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Answer, Transport


FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.25
LOOK_S = 0.05
"""How often who waits looks whether other servers have taken the place of the one that was called."""
LOOK_AGAIN_S = 1.0
"""How often who waits looks whether the server is elsewhere."""


@dataclass(frozen=True)
class Voice:
    """Who waits for a call, and how to find out what it is that keeps the server from answering."""

    who: str
    awaited: Callable[[], Awaited]


class ServerCall:
    """One call to one server, under way since it was made."""

    def __init__(
        self,
        transport: Transport,
        method: str,
        header: Message,
        tensors: Tensors,
        timeout_s: float,
        patience_s: float,
        voice: Voice | None = None,
        moved: Callable[[], bool] | None = None,
    ) -> None:
        """`timeout_s` is for the answer, `patience_s` for reaching the server at all.

        Without a `voice` a long wait is not reported. `moved` says whether other servers have taken the place of this
        one, which may be gone without a word: it is asked now and then while the call waits.
        """
        self._transport = transport
        self._method, self._header, self._tensors = method, header, tensors
        self._timeout_s = timeout_s
        self._server_ms: int = getattr(header, "timeout_ms", 0)  # how long the server may wait for others
        self._patience_s = patience_s
        self._voice = voice
        self._moved = moved
        self._num_lost = 0
        self._held_s = 0.0
        self._wire: WireSpan | None = None
        self._answer = self._attempt(timeout_s)

    def result(self) -> tuple[Message, Tensors]:
        """The answer; an error names the endpoint."""
        if self._answer.done():  # then nobody waits
            with suppress(FleetError):
                answer = self._answer.result()
                self._end_span()
                if not getattr(answer[0], "is_held", False):
                    return answer
        deadline: float | None = None
        pause_s = FIRST_PAUSE_S
        with LongWait("" if self._voice is None else self._voice.who) as wait:
            while True:
                started = time.monotonic()
                try:
                    try:
                        answer = self._answered(wait)
                    finally:
                        self._end_span()
                    if not getattr(answer[0], "is_held", False):
                        return answer
                    self._come_again(wait)
                    continue
                except CommunicationError as error:
                    if not error.retryable:
                        raise
                    self._refuse_moved()
                    now = time.monotonic()
                    if deadline is None or now - started > self._patience_s:  # the server was there in between
                        deadline, pause_s = now + self._patience_s, FIRST_PAUSE_S
                    if now + pause_s > deadline:
                        given_up = CommunicationError(
                            f"{error}; tried for {self._patience_s:g} s ({rpc_timeout_name()})"
                        )
                        given_up.retryable = True
                        raise given_up from None
                    refused = error
                self._pause(pause_s * random.uniform(0.5, 1.0))  # not all workers at once
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                self._send_again(wait, refused)

    def _attempt(self, timeout_s: float) -> Answer:
        """Send the call and, where a trace is recorded, begin its span."""
        transport = self._transport
        if not tracer.is_armed or not is_marked(self._header):
            return transport.call(self._method, self._header, self._tensors, timeout_s)
        self._wire = WireSpan(self._method, self._header, transport.endpoint)
        answer = transport.call(self._method, self._header, self._tensors, timeout_s)
        self._wire.sent(answer)
        return answer

    def _end_span(self) -> None:
        if self._wire is not None:
            self._wire.end(self._answer)
            self._wire = None

    def _answered(self, wait: LongWait) -> tuple[Message, Tensors]:
        """Wait for the answer to this attempt."""
        while True:
            look_s = LOOK_AGAIN_S if self._moved is None else LOOK_S
            try:
                return self._answer.result(look_s if self._voice is None else min(look_s, wait.silent_s))
            except DeadlineError as error:
                if not self._num_lost:
                    raise
                raise DeadlineError(f"{error}; {self._losses(wait.waited_s)}") from None
            except TimeoutError:  # raised by the future, unless the answer came this very moment
                if self._answer.done():
                    continue
                self._refuse_moved()
                if self._transport.look_again():
                    raise unreachable(self._transport.endpoint, self._method, "it is elsewhere now") from None
                if wait.is_due and self._voice is not None:
                    wait.tell(self._voice.awaited() if not self._held_s else self._being_saved())

    def _refuse_moved(self) -> None:
        """MovedError if other servers have taken the place of the one that was called."""
        if self._moved is not None and self._moved():
            raise MovedError(f"server {self._transport.endpoint} is a server no more")

    def _pause(self, pause_s: float) -> None:
        """Wait before the next attempt, while the server is one."""
        until = time.monotonic() + pause_s
        while (left_s := until - time.monotonic()) > 0:
            time.sleep(left_s if self._moved is None else min(left_s, LOOK_S))
            self._refuse_moved()

    def _come_again(self, wait: LongWait) -> None:
        """Send it again to a server that asked for patience: the time it made us wait does not count."""
        self._held_s = wait.waited_s
        if self._voice is not None and wait.is_due:
            wait.tell(self._being_saved())
        self._answer = self._attempt(self._timeout_s)

    def _send_again(self, wait: LongWait, refused: CommunicationError) -> None:
        """Make another attempt, with the time that is left, after one that failed."""
        self._num_lost += 1
        waited_s = wait.waited_s - self._held_s
        if waited_s > self._timeout_s:
            raise DeadlineError(
                f"server {self._transport.endpoint}: no answer to {self._method} within {self._timeout_s:g} s; "
                f"{self._losses(waited_s)}"
            )
        if self._voice is not None and wait.is_due:
            away = f"server {self._transport.endpoint}, which cannot be reached ({self._method})"
            wait.tell(Awaited(str(refused) if refused.is_answer else away, is_limited=True))
        if self._server_ms:
            self._header.timeout_ms = max(1, self._server_ms - int(waited_s * 1000))  # type: ignore[attr-defined]
        self._transport.look_again()
        self._answer = self._attempt(max(1.0, self._timeout_s - waited_s))

    def _being_saved(self) -> Awaited:
        text = f"server {self._transport.endpoint}, which is being saved ({self._method})"
        return Awaited(text, is_limited=True)

    def _losses(self, waited_s: float) -> str:
        times = "once" if self._num_lost == 1 else f"{self._num_lost} times"
        return f"the connection was lost {times} in {waited_s:.0f} s"


def results(calls: Sequence[ServerCall]) -> list[tuple[Message, Tensors]]:
    """Every answer, in order."""
    return [call.result() for call in calls]


def outcomes(calls: Sequence[ServerCall]) -> tuple[list[tuple[Message, Tensors]], list[FleetError]]:
    """The answers, and the errors of calls that failed, when all are over."""
    answers, errors = [], []
    for call in calls:
        try:
            answers.append(call.result())
        except FleetError as error:
            errors.append(error)
    return answers, errors


# How long a server may take to say what it waits for, while it is waited for anyway.
ASK_S = 2.0


def voice_of(transport: Transport, caller: ps_pb2.Caller, method: str, *, waits_for_others: bool) -> Voice:
    """How a worker finds out what keeps a server from answering: other workers, as it says itself, or its own work."""
    return Voice(f"worker {caller.worker}", lambda: _awaited_from(transport, caller, method, waits_for_others))


def _awaited_from(transport: Transport, caller: ps_pb2.Caller, method: str, waits_for_others: bool) -> Awaited:
    if waits_for_others:
        with suppress(FleetError, TimeoutError):
            reply: Any = transport.call("Stats", ps_pb2.StatsRequest.Header(caller=caller), (), ASK_S).result(2 * ASK_S)
            if reply[0].awaited:
                return Awaited(reply[0].awaited, tuple(reply[0].missing))
    return Awaited(f"server {transport.endpoint} to answer {method}", server=transport.endpoint)
