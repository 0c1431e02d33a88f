"""A transport that loses, repeats and delays calls, by a seeded generator, and notes which pushes are acknowledged.

What it does to a call looks to its caller as a lost connection does: an error that is worth another try.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.message import Message

from fleet.errors import CommunicationError
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.messages import Tensors
from fleet.ps.wire.transport import Answer, Transport
from fleet_tools.chaos.notes import note, note_ack
from fleet_tools.chaos.spec import CallFault

LATEST_REPETITION_S = 0.05
"""How much later than the call itself its repetition may come."""


@dataclass(frozen=True)
class Fate:
    """What becomes of one call."""

    delay_s: float = 0.0
    is_lost: bool = False
    """Whether it is lost before it is sent."""
    is_answer_lost: bool = False
    """Whether its answer is lost, after it was done."""
    repeat_after_s: float | None = None


class _Sent(NamedTuple):
    """A call on its way, and what its caller waits for."""

    method: str
    header: Any
    tensors: Tensors
    timeout_s: float
    fate: Fate
    answer: Answer


class FaultyTransport(Transport):
    """One server, seen through a bad network."""

    def __init__(self, inner: Transport, server: int, faults: Sequence[CallFault], rng: random.Random) -> None:
        self.endpoint = inner.endpoint
        self._inner = inner
        self._server = server
        self._faults = {one.kind: one for one in faults}
        self._rng = rng
        self._lock = threading.Lock()
        self._later: dict[threading.Timer, Answer | None] = {}
        self._is_closed = False

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        with self._lock:
            fate = self._draw()
        answer: Answer = Future()
        answer.set_running_or_notify_cancel()
        sent = _Sent(method, header, tensors, timeout_s, fate, answer)
        if fate.delay_s:
            note("delay", server=self._server, method=method)
            self._do_later(fate.delay_s, lambda: self._send(sent), answer)
        else:
            self._send(sent)
        return answer

    def look_again(self) -> bool:
        return self._inner.look_again()

    def _draw(self) -> Fate:
        """Every call draws the same number of times, so that one fault does not move the others."""
        chances = {kind: self._rng.random() for kind in ("drop", "repeat", "delay")}
        is_on_the_way_back, pause = self._rng.random() < 0.5, self._rng.random()
        is_hit = {kind: kind in self._faults and chances[kind] < self._faults[kind].share for kind in chances}
        return Fate(
            delay_s=self._faults["delay"].delay_s if is_hit["delay"] else 0.0,
            is_lost=is_hit["drop"] and not is_on_the_way_back,
            is_answer_lost=is_hit["drop"] and is_on_the_way_back,
            repeat_after_s=pause * LATEST_REPETITION_S if is_hit["repeat"] else None,
        )

    def _send(self, sent: _Sent) -> None:
        if sent.fate.is_lost:
            self._lose(sent, "dropped before it was sent")
        elif sent.method == "Leave":
            self._note_pushes(sent)
        else:
            self._pass_on(sent)

    def _pass_on(self, sent: _Sent) -> None:
        method, header, tensors, timeout_s, fate, _ = sent
        if fate.repeat_after_s is not None:
            note("repeat", server=self._server, method=method)
            copy = type(header)()  # whoever sends a call again changes its header
            copy.CopyFrom(header)
            self._do_later(fate.repeat_after_s, lambda: self._inner.call(method, copy, tensors, timeout_s))
        done = self._inner.call(method, header, tensors, timeout_s)
        done.add_done_callback(lambda done: self._deliver(done, sent))

    def _deliver(self, done: Answer, sent: _Sent) -> None:
        error = done.exception()
        if error is not None:
            sent.answer.set_exception(error)
        elif sent.fate.is_answer_lost:
            self._lose(sent, "done, and its answer dropped")
        else:
            if sent.method == "Push":
                note_ack(self._server, sent.header.caller.incarnation, sent.header.sequence)
            elif sent.method == "Declare":
                note("declared", server=self._server)
            sent.answer.set_result(done.result())

    def _note_pushes(self, leave: _Sent) -> None:
        """Before a worker leaves, note what its server has done: whoever leaves last notes everybody's pushes."""

        def take(done: Future[tuple[Any, Tensors]]) -> None:
            error = done.exception()
            if error is not None:
                leave.answer.set_exception(error)  # as if `Leave` itself had failed
                return
            note("pushes", server=self._server, count=json.loads(done.result()[0].stats)["pushes"])
            self._pass_on(leave)

        header = ps_pb2.StatsRequest.Header(caller=leave.header.caller)
        self._inner.call("Stats", header, (), leave.timeout_s).add_done_callback(take)

    def _lose(self, sent: _Sent, how: str) -> None:
        note("drop", server=self._server, method=sent.method, how=how)
        error = CommunicationError(f"server {self.endpoint}: {sent.method} was {how} (by --chaos)")
        error.retryable = True
        sent.answer.set_exception(error)

    def _do_later(self, after_s: float, what: Callable[[], object], answer: Answer | None = None) -> None:
        """Do something later; `answer` gets an error if the transport is closed first."""

        def run() -> None:
            with self._lock:
                if self._later.pop(timer, self) is self:  # closed meanwhile
                    return
            what()

        timer = threading.Timer(after_s, run)
        timer.daemon = True
        with self._lock:
            if not self._is_closed:
                self._later[timer] = answer
                timer.start()
                return
        what()  # the inner transport says that it is closed

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            waiting, self._later = self._later, {}
        for timer, answer in waiting.items():
            timer.cancel()
            if answer is not None:
                answer.set_exception(CommunicationError(f"server {self.endpoint}: the connection was closed"))
        self._inner.close()
