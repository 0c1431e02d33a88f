"""Traces as they are read: one clock for several machines, a file that viewers take, OTLP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleet.launch.cli import run
from fleet.observe.tracing.window import Window
from fleet_tools.traces import otlp
from fleet_tools.traces.chrome import chrome_trace
from fleet_tools.traces.gathering import in_a_line, write_trace
from fleet_tools.traces.reading import Traced, TracedSpan, offsets, read_trace


def process(role: str, index: int, boot: str, **parts: Any) -> Traced:
    one = Traced(role, index, 100 + index, boot, f"host-{boot}", 0, 0, **parts)
    one.endpoint = f"{boot}:{index}" if role == "server" else ""
    return one


def a_push(sequence: int, begin: int, end: int, endpoint: str = "") -> TracedSpan:
    about = {"worker": 0, "incarnation": 1, "sequence": sequence, "step": sequence}
    return TracedSpan("Push", 100, begin, end, {**about, "endpoint": endpoint} if endpoint else about)


def test_clocks_of_two_machines_are_compared_by_their_calls() -> None:
    late = 5_000_000  # the server's clock is behind by this
    calls = [(1000, 9000, 3000, 4000), (20_000, 25_000, 20_500, 24_000), (40_000, 60_000, 58_000, 59_500)]
    worker = process("worker", 0, "a", wires=[a_push(n, s, e, "b:0") for n, (s, e, _, _) in enumerate(calls, 1)])
    server = process(
        "server", 0, "b", requests=[a_push(n, b - late, e - late) for n, (_, _, b, e) in enumerate(calls, 1)]
    )
    found = offsets([worker, server])
    assert found["a"].offset_ns == 0
    # The second bounds it from below, the third from above.
    assert found["b"].how == "calls"
    assert found["b"].error_ns == pytest.approx(500, abs=1)
    assert abs(found["b"].offset_ns - late) <= 500
    other = chrome_trace([worker, server], "steps 1 to 3")["otherData"]["machines"][1]
    assert (other["host"], other["by"]) == ("host-b", "calls")
    assert (other["offset_ns"], other["error_ns"]) == (found["b"].offset_ns, found["b"].error_ns)


def test_a_machine_that_nobody_calls_has_its_wall_clock() -> None:
    one, other = (
        process("worker", index, boot, spans=[TracedSpan("step", 1, 0, 9, {})]) for index, boot in enumerate("ab")
    )
    other.wall_ns, other.mono_ns = 700, 100
    found = offsets([one, other])["b"]
    assert (found.offset_ns, found.error_ns, found.how) == (600, None, "wall clocks")


def test_calls_that_overlap_have_rows_of_their_own() -> None:
    calls = [a_push(1, 0, 100, "a:0"), a_push(2, 50, 150, "a:0"), a_push(3, 120, 200, "a:0")]
    events = chrome_trace([process("worker", 0, "a", wires=calls)], "step 1")["traceEvents"]
    rows = [event["tid"] for event in events if event["name"] == "wire push"]
    assert rows[0] == rows[2] != rows[1]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {"wire to a:0", "wire to a:0 (2)"}


def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    folder = tmp_path / "observe"
    folder.mkdir()
    head = {"form": 1, "pid": 7, "boot": "a", "host": "h", "wall_ns": 0, "mono_ns": 0, "window": "1:2"}
    good = ["span", "step", 7, 0, 5, {"step": 1}]
    lines = [json.dumps(head), json.dumps(good), '["span", "pull", 7, 1', '["span", 3]', "null", json.dumps(good)]
    (folder / "workerlog.0.7.trace.jsonl").write_text("\n".join(lines))
    (folder / "workerlog.1.8.trace.jsonl").write_text("nonsense")
    (only,) = read_trace([tmp_path])
    assert len(only.spans) == 2
    assert only.name == "worker 0"
    assert "2 spans of 1 processes" in in_a_line("t", [only], Window(1, 2))
    assert run(["trace", str(tmp_path), "--out", str(tmp_path / "joined.json")]) == 0
    assert len(json.loads((tmp_path / "joined.json").read_text())["traceEvents"]) > 2
    assert run(["trace", str(folder)]) == 2


def test_a_full_disk_costs_the_trace_only() -> None:
    one = process("worker", 0, "a", spans=[TracedSpan("step", 1, 0, 9, {})])
    assert isinstance(write_trace(Path("/dev/full/trace.json"), [one], Window(1, 1)), OSError)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    taken: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", taken
    server.shutdown()
    thread.join()
    server.server_close()


def test_spans_reach_a_collector(collector: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    messages: Any = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    url, taken = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    step = TracedSpan("step", 100, 0, 100, {"step": 1})
    worker = process(
        "worker", 0, "a", spans=[step, TracedSpan("pull", 100, 10, 20, {})], wires=[a_push(1, 30, 90, "a:0")]
    )
    apply = TracedSpan("apply", 1, 50, 60, {"step": 0, "pushes": [[0, 1, 1]]})
    server = process("server", 0, "a", spans=[apply], requests=[a_push(1, 40, 80)])
    send = otlp.own_sender()
    assert send is not None
    assert send([server, worker]) is None
    spans = {
        span.name: span
        for body in taken
        for resource in messages.ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert set(spans) == {f"fleet.{name}" for name in ("step", "pull", "wire push", "apply", "request push")}
    parent = spans.pop("fleet.step")
    assert not parent.parent_span_id
    for span in spans.values():
        assert (span.trace_id, span.parent_span_id) == (parent.trace_id, parent.span_id)
        assert parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano


def test_a_collector_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setattr(otlp, "TIMEOUT_S", 0.2)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert otlp.send([process("worker", 0, "a", spans=[TracedSpan("step", 1, 0, 9, {"step": 1})])]) is not None
    monkeypatch.setattr(otlp, "ALL_S", -1.0)
    told = otlp.send([process("worker", 0, "a", spans=[TracedSpan("step", 1, 0, 9, {"step": 1})])])
    assert told == "0 of 1 spans were taken within -1 s, which is all there is"
