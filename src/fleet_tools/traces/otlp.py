"""Sends a trace to a collector of OpenTelemetry, where its SDK is installed and an endpoint is set.

Each step of a worker is a trace there: its span, the parts inside it, its calls, and what servers did for them.
"""

import hashlib
import importlib.util
import logging
import secrets
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from fleet import env
from fleet_tools.traces.reading import Traced, TracedSpan, offsets

TIMEOUT_S = 10
ALL_S = 60.0
"""How long all of it may take: the end of the job may wait for it."""
BATCH = 512

log = logging.getLogger("fleetrun")
Sender = Callable[[Sequence[Traced]], str | None]
"""Sends a trace; says why it could not, or None."""


def own_sender() -> Sender | None:
    """What sends spans to OTEL_EXPORTER_OTLP_ENDPOINT; None where that is not set, or what it needs is missing."""
    if env.OTEL_EXPORTER_OTLP_ENDPOINT.text() is None:
        return None
    try:
        has_it = importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        has_it = False
    if not has_it:
        log.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, but spans are not sent: pip install 'torch-fleet[otel]'")
        return None
    return send


def send(processes: Sequence[Traced]) -> str | None:
    """Send a trace by OTLP over HTTP; why it could not be, or None."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter: Any = OTLPSpanExporter(timeout=TIMEOUT_S)
    try:
        spans = otel_spans(processes)
        deadline = time.monotonic() + ALL_S
        for begin in range(0, len(spans), BATCH):
            if time.monotonic() > deadline:
                return f"{begin:,} of {len(spans):,} spans were taken within {ALL_S:g} s, which is all there is"
            if exporter.export(spans[begin : begin + BATCH]) is not SpanExportResult.SUCCESS:
                return "the collector did not take it"
    except Exception as error:  # whatever a library of others makes of a network
        return f"{type(error).__name__}: {error}"
    finally:
        exporter.shutdown()
    return None


def otel_spans(processes: Sequence[Traced]) -> list[Any]:
    """The spans of a trace as OpenTelemetry's SDK has them, with times since 1970."""
    shown = [one for one in processes if not one.is_empty]
    clocks = offsets(shown)
    steps = {
        (one.index, span.about["step"]): _context(f"{one.index}.{span.about['step']}", "step")
        for one in shown
        if one.role == "worker"
        for span in one.spans
        if span.name == "step"
    }
    step_of_push = {_push(call): call.about.get("step") for one in shown for call in one.wires if call.name == "Push"}
    found = []
    for one in shown:
        shift = clocks[one.boot].offset_ns + shown[0].wall_ns - shown[0].mono_ns
        own = sorted((span for span in one.spans if span.name == "step"), key=lambda span: span.begin_ns)
        begins = [span.begin_ns for span in own]
        for number, (kind, span) in enumerate(_all(one)):
            if one.role == "worker":
                at = bisect_right(begins, span.begin_ns) - 1
                is_inside = at >= 0 and span.begin_ns < own[at].end_ns
                parent = steps.get((one.index, own[at].about["step"])) if is_inside else None
            else:
                pushes = [tuple(push) for push in span.about.get("pushes") or [_push(span)]]
                parents = [steps.get((push[0], step_of_push.get(push))) for push in pushes]
                parent = next((found for found in parents if found is not None), None)
            found.append(_span(one, kind, span, shift, parent, f"{one.role}.{one.index}.{one.pid}.{number}"))
    return found


def _all(one: Traced) -> list[tuple[str, TracedSpan]]:
    named = [("", span) for span in one.spans]
    return named + [("wire ", span) for span in one.wires] + [("request ", span) for span in one.requests]


def _push(span: TracedSpan) -> tuple[int, ...]:
    return tuple(span.about.get(name, 0) for name in ("worker", "incarnation", "sequence"))


def _context(of_trace: str, of_span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    trace_id = hashlib.blake2b(of_trace.encode(), digest_size=16, key=_key()).digest()
    span_id = hashlib.blake2b(f"{of_trace}/{of_span}".encode(), digest_size=8, key=_key()).digest()
    numbers = int.from_bytes(trace_id), int.from_bytes(span_id)
    return SpanContext(*numbers, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


@cache
def _key() -> bytes:
    """Makes the numbers of one launcher's traces unlike those of others."""
    return secrets.token_bytes(16)


def _span(one: Traced, kind: str, span: TracedSpan, shift: int, parent: Any, unique: str) -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    is_step = span.name == "step" and parent is not None
    trace = _context(f"alone.{unique}", unique) if parent is None else parent
    own = type(trace)(trace.trace_id, _context(unique, unique).span_id, False, trace.trace_flags)
    resource: dict[str, Any] = {"fleet.role": one.role, "fleet.index": one.index, "host.name": one.host}
    resource["service.name"] = "fleet"
    return ReadableSpan(
        name=f"fleet.{kind}{span.name.lower()}",
        context=parent if is_step else own,
        parent=None if is_step else parent,
        resource=Resource(resource),
        attributes={f"fleet.{key}": value for key, value in span.about.items() if isinstance(value, int | str)},
        start_time=span.begin_ns + shift,
        end_time=span.end_ns + shift,
    )
