"""A trace as Chrome's trace event format has it, which ui.perfetto.dev and chrome://tracing open.

Each process of the job is a process there. Its threads are threads; calls of a worker, and requests of a server, have
rows of their own beside them, since they wait without a thread and may overlap. An arrow leads from a push to its
application.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from fleet_tools.traces.reading import Offset, Traced, TracedSpan, offsets

LANES = 1 << 24
"""Rows that are no threads are numbered from here; Linux has no thread with such a number."""
LANES_EACH = 1 << 10

Json = dict[str, Any]


def chrome_trace(processes: Sequence[Traced], window: str) -> Json:
    """All of it as one object, with times in microseconds from the begin of the trace."""
    shown = [one for one in processes if not one.is_empty]
    clocks = offsets(shown)
    begins = [
        span.begin_ns + clocks[one.boot].offset_ns for one in shown for span in (*one.spans, *one.wires, *one.requests)
    ]
    base = min(begins, default=0)
    names = {one.endpoint: one.name for one in shown if one.role == "server" and one.endpoint}
    events: list[Json] = []
    are_alone = len({one.pid for one in shown}) == len(shown)  # of several machines two may have the same
    for order, one in enumerate(shown):
        page = _Page(one, one.pid if are_alone else order + 1, order, base - clocks[one.boot].offset_ns, names)
        events += page.events()
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "fleet": window,
            "clock": "CLOCK_MONOTONIC of " + (shown[0].host if shown else "nobody"),
            "base_ns": base,
            "machines": [_machine(boot, clock, shown) for boot, clock in clocks.items()],
            "lost_spans": sum(one.num_lost for one in shown),
        },
        "traceEvents": events,
    }


def _machine(boot: str, clock: Offset, processes: Sequence[Traced]) -> Json:
    host = next(one.host for one in processes if one.boot == boot)
    return {"host": host, "offset_ns": clock.offset_ns, "error_ns": clock.error_ns, "by": clock.how}


class _Page:
    """One process of the trace; `page` is its number there, `order` its place."""

    def __init__(self, process: Traced, page: int, order: int, base_ns: int, servers: dict[str, str]) -> None:
        self._process, self._page, self._order = process, page, order
        self._base_ns, self._servers = base_ns, servers

    def events(self) -> Iterator[Json]:
        one = self._process
        yield self._meta("process_name", 0, {"name": one.name})
        yield self._meta("process_labels", 0, {"labels": f"{one.host}, pid {one.pid}"})
        yield self._meta("process_sort_index", 0, {"sort_index": self._order})
        for thread in sorted({span.thread for span in one.spans}):
            name = "training" if thread == one.pid and one.role == "worker" else one.threads.get(thread, "native")
            yield self._meta("thread_name", thread, {"name": name})
            yield self._meta("thread_sort_index", thread, {"sort_index": 0 if thread == one.pid else 1})
        for span in one.spans:
            yield self._complete(span, span.name, span.thread)
            yield from self._arrows_in(span)
        yield from self._calls()
        yield from self._requests()

    def _calls(self) -> Iterator[Json]:
        groups: dict[str, list[TracedSpan]] = {}
        for call in self._process.wires:
            endpoint = str(call.about.get("endpoint"))
            groups.setdefault(self._servers.get(endpoint, endpoint), []).append(call)
        for number, (server, calls) in enumerate(sorted(groups.items())):
            for lane, found in self._lanes(f"wire to {server}", number, calls):
                yield found if isinstance(found, dict) else self._complete(found, f"wire {found.name.lower()}", lane)
        for call in self._process.wires:
            if call.name == "Push":
                yield self._arrow("s", call.thread, call.begin_ns, call.about, str(call.about.get("endpoint")))

    def _requests(self) -> Iterator[Json]:
        groups: dict[int, list[TracedSpan]] = {}
        for request in self._process.requests:
            groups.setdefault(int(request.about.get("worker", 0)), []).append(request)
        for number, (worker, requests) in enumerate(sorted(groups.items())):
            for lane, found in self._lanes(f"requests of worker {worker}", number, requests):
                yield from [found] if isinstance(found, dict) else self._request(found, lane)

    def _request(self, one: TracedSpan, lane: int) -> Iterator[Json]:
        yield self._complete(one, f"request {one.name.lower()}", lane)
        if (wait := one.about.get("wait")) is not None:
            begin, end = max(wait[0], one.begin_ns), min(wait[1], one.end_ns)
            yield self._complete(one._replace(begin_ns=begin, end_ns=end, about={}), "wait for the step", lane)

    def _lanes(self, name: str, number: int, spans: Sequence[TracedSpan]) -> Iterator[tuple[int, Json | TracedSpan]]:
        """The spans with rows in which they do not overlap; first what the rows are called."""
        ends: list[int] = []
        for span in sorted(spans, key=lambda one: (one.begin_ns, one.end_ns)):
            place = next((at for at, end in enumerate(ends) if end <= span.begin_ns), len(ends))
            lane = LANES + number * LANES_EACH + min(place, LANES_EACH - 1)
            if place == len(ends):
                ends.append(0)
                yield lane, self._meta("thread_name", lane, {"name": name if not place else f"{name} ({place + 1})"})
                yield lane, self._meta("thread_sort_index", lane, {"sort_index": lane})
            ends[place] = span.end_ns
            yield lane, span

    def _arrows_in(self, span: TracedSpan) -> Iterator[Json]:
        """The ends of arrows from the pushes that this applies."""
        if span.name == "apply":
            inside = span.begin_ns + min(1000, (span.end_ns - span.begin_ns) // 2)
            for worker, incarnation, sequence in span.about.get("pushes", ()):
                about = {"worker": worker, "incarnation": incarnation, "sequence": sequence}
                yield self._arrow("f", span.thread, inside, about, self._process.endpoint)

    def _arrow(self, phase: str, thread: int, at_ns: int, about: Json, endpoint: str) -> Json:
        name = ".".join(str(about.get(key)) for key in ("worker", "incarnation", "sequence"))
        # A number: Perfetto knows no other name for an arrow.
        number = int.from_bytes(hashlib.blake2b(f"{name}@{endpoint}".encode(), digest_size=6).digest())
        event: Json = {"ph": phase, "name": "push", "cat": "push", "id": number}
        event |= {"pid": self._page, "tid": thread, "ts": self._time(at_ns)}
        return {**event, "bp": "e"} if phase == "f" else event

    def _complete(self, span: TracedSpan, name: str, lane: int) -> Json:
        event: Json = {"ph": "X", "name": name, "cat": self._process.role, "pid": self._page, "tid": lane}
        event |= {"ts": self._time(span.begin_ns), "dur": (span.end_ns - span.begin_ns) / 1000}
        about = {key: value for key, value in span.about.items() if key != "wait"}
        return {**event, "args": about} if about else event

    def _meta(self, name: str, thread: int, args: Json) -> Json:
        return {"ph": "M", "name": name, "pid": self._page, "tid": thread, "args": args}

    def _time(self, at_ns: int) -> float:
        return (at_ns - self._base_ns) / 1000
