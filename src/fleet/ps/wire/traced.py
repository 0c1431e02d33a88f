"""Spans of calls between workers and servers, for a trace that is recorded (`fleet.observe.tracing`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet import _native
from fleet.observe.trace_files import begin
from fleet.observe.tracing.tracer import Event, tracer

if TYPE_CHECKING:
    from fleet.ps.held.requests import PushedUpdate
    from fleet.ps.steps.core import Core
    from fleet.ps.wire.transport import Answer

_METHODS = ("", "Pull", "Push", "Meet")
"""The methods of the data plane, by number: csrc/plane/frame.h."""


def prepare() -> None:
    """Have the spans of the native core written too, if this process records a trace."""
    writer = begin()
    if writer is not None and not _has_prepared:
        _has_prepared.append(True)
        _native.record_spans(True)
        writer.also(_native_events)


_has_prepared: list[bool] = []


def is_marked(header: Any) -> bool:
    """Whether whoever made this request records a trace; the worker itself may be past the window by now."""
    caller = getattr(header, "caller", None)
    return caller is not None and caller.is_traced


class WireSpan:
    """One attempt at a call, from send to answer."""

    def __init__(self, method: str, header: Any, endpoint: str) -> None:
        self._method, self._thread = method, tracer.thread()
        self._begin_ns, self._end_ns = time.monotonic_ns(), 0
        caller = header.caller
        self._about = {
            "endpoint": endpoint,
            "worker": caller.worker,
            "incarnation": caller.incarnation,
            "sequence": getattr(header, "sequence", 0),
            "step": tracer.step,
        }

    def sent(self, answer: Answer) -> None:
        """The call is under way."""
        if not hasattr(answer, "came_ns"):  # by gRPC, or from a service in this process
            answer.add_done_callback(self._came)

    def end(self, answer: Any) -> None:
        """Whoever made the call has its answer; it may have come some time ago."""
        begin_ns = getattr(answer, "sent_ns", 0) or self._begin_ns
        end_ns = getattr(answer, "came_ns", 0) or self._end_ns or time.monotonic_ns()
        tracer.keep(["wire", self._method, self._thread, begin_ns, end_ns, self._about])

    def _came(self, _answer: Any) -> None:
        self._end_ns = time.monotonic_ns()


@contextmanager
def request_span(method: str, header: Any) -> Iterator[None]:
    """Keep the span of a request that has come by gRPC; native code keeps the spans of others."""
    if not tracer.is_armed or not is_marked(header):
        yield
        return
    caller = header.caller
    about = {"worker": caller.worker, "incarnation": caller.incarnation, "sequence": getattr(header, "sequence", 0)}
    begin_ns = time.monotonic_ns()
    try:
        yield
    finally:
        tracer.keep(["request", method, threading.get_native_id(), begin_ns, time.monotonic_ns(), about])


def applied(core: Core, updates: Sequence[PushedUpdate], began: float) -> None:
    """Keep the span of pushes applied since `began`, on the clock of `time.perf_counter`, if one of them is traced."""
    if tracer.is_armed and any(update.is_traced for update in updates):
        incarnation = core.state.ledger.incarnation
        pushes = [[update.worker, incarnation(update.worker), update.sequence] for update in updates]
        tracer.add("apply", began, time.perf_counter(), {"step": updates[0].step, "pushes": pushes})


def _native_events() -> list[Event]:
    tracer.num_lost += _native.lost_spans() - _num_lost[0]
    _num_lost[0] = _native.lost_spans()
    spans = _native.take_spans()
    names = [["thread", thread, name] for thread in {span[1] for span in spans} if (name := _name_of(thread))]
    return [*names, *(_event(*span) for span in spans)]


_num_lost = [0]


def _name_of(thread: int) -> str:
    """The name of a thread of this process; "" if it has ended."""
    try:
        return Path(f"/proc/self/task/{thread}/comm").read_text().strip()
    except OSError:
        return ""


def _event(what: str, thread: int, begin_ns: int, end_ns: int, about: list[int]) -> Event:
    if what == "request":
        method, worker, incarnation, sequence, waits_from, waits_to = about
        told: dict[str, Any] = {"worker": worker, "incarnation": incarnation, "sequence": sequence}
        if waits_to:
            told["wait"] = [waits_from, waits_to]
        return ["request", _METHODS[method], thread, begin_ns, end_ns, told]
    names = {"table pull": ("table", "rows"), "table push": ("table", "rows"), "dense": ("groups",)}.get(what, ())
    return ["span", what, thread, begin_ns, end_ns, dict(zip(names, about, strict=False))]
