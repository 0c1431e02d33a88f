"""Real jobs that are traced, and what Perfetto's own trace processor makes of their files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import trace_processor
from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(240)

TRAIN = """
    import sys, torch, fleet
    fleet.init()
    if fleet.is_server():
        sys.exit(fleet.run_server())
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = sys.argv[1] == "async"
    torch.manual_seed(0)
    model = torch.nn.Sequential(fleet.nn.Embedding(4), torch.nn.Linear(4, 1))
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), 0.1), strategy)
    fleet.init_worker()
    for step in range(8):
        loss = model(torch.arange(step, step + 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fleet.report(loss=loss)
    fleet.stop_worker()
"""
ARGUMENTS = ("--server_num", 2, "--worker_num", 2)
WORDS = ("step", "route", "pull", "forward", "backward", "push", "wait", "dense", "optimizer")


def traced(tmp_path: Path, mode: str, *options: object) -> dict[str, Any]:
    train = script(tmp_path, TRAIN)
    result = fleetrun(*ARGUMENTS, "--trace", "3:5", *options, train, mode, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert "trace of steps 3 to 5: open log/trace.json at ui.perfetto.dev; " in result.err
    found: dict[str, Any] = json.loads((tmp_path / "log" / "trace.json").read_text())
    return found


def named(trace: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    return (event for event in trace["traceEvents"] if event["name"] == name and event["ph"] == "X")


def check_format(trace: dict[str, Any]) -> None:
    """What the trace event format demands, and that spans of one row lie inside or beside each other."""
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {}
    names = {(one["pid"], one["tid"]) for one in trace["traceEvents"] if one["name"] == "thread_name"}
    flows: Counter[tuple[str, int]] = Counter()
    for event in trace["traceEvents"]:
        assert event["ph"] in "MXsf"
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in names
            rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] in "sf":
            flows[event["ph"], event["id"]] += 1
    for spans in rows.values():
        open_ends: list[float] = []
        for begin, end in sorted(spans, key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1] <= begin + 0.001:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 0.001
            open_ends.append(end)
    assert flows
    assert set(flows.values()) == {1}
    assert all(flows["f", number] for kind, number in list(flows) if kind == "s")


def test_a_push_lies_around_its_application(tmp_path: Path) -> None:
    trace = traced(tmp_path, "sync", "--tensorboard")
    check_format(trace)
    assert trace["otherData"]["machines"][0]["error_ns"] == 0
    assert {event["args"]["step"] for event in named(trace, "step")} == {3, 4, 5}
    check_board(tmp_path / "log" / "tensorboard")
    words, problems, pushes, work = trace_processor.query(
        tmp_path / "log" / "trace.json", (WHO_DID_WHAT, PROBLEMS, PUSHES, WORK), tmp_path
    )
    assert problems == []
    done = {(row["process"], row["name"]): row["n"] for row in words}
    for worker in ("worker 0", "worker 1"):
        assert all(done.get((worker, word)) for word in WORDS), done
        assert done[worker, "step"] == 3
        assert done[worker, "wire push"] == 6
    for server in ("server 0", "server 1"):
        assert done[server, "apply"] == 3
        assert done[server, "request push"] == 6
        assert done[server, "wait for the step"] >= 1  # none where both pushes came in the same moment
        assert done[server, "table push"] >= 3
        assert done[server, "table pull"] >= 3
    # Each of 2 workers' 3 pushes to each of 2 servers has an arrow, and its call lies around its application.
    assert len(pushes) == 12
    for row in pushes:
        assert row["from_name"] == "push"
        assert row["to_name"] == "apply"
        assert row["wire_begin"] <= row["apply_begin"] < row["apply_end"] <= row["wire_end"]
    assert work[0]["outside"] == 0  # the native core works inside what Python applies


def check_board(folder: Path) -> None:
    loader: Any = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    tags: dict[str, set[str]] = {}
    for path in folder.glob("*/events*"):
        for event in loader.LegacyEventFileLoader(str(path)).Load():
            tags.setdefault(path.parent.name, set()).update(value.tag for value in event.summary.value)
    assert set(tags) == {"worker.0", "worker.1", "server.0", "server.1"}
    assert "loss" in tags["worker.0"]
    assert "rows/0" in tags["server.1"]


WHO_DID_WHAT = """
    select process.name as process, slice.name as name, count(*) as n from slice
    join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
    group by 1, 2
"""
PROBLEMS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
PUSHES = """
    select sent.name as from_name, done.name as to_name, done.ts as apply_begin, done.ts + done.dur as apply_end,
           wire.ts as wire_begin, wire.ts + wire.dur as wire_end
    from flow
    join slice sent on flow.slice_out = sent.id
    join slice done on flow.slice_in = done.id
    join thread_track sent_track on sent.track_id = sent_track.id
    join thread sent_thread on sent_thread.utid = sent_track.utid
    join thread_track done_track on done.track_id = done_track.id
    join thread done_thread on done_thread.utid = done_track.utid
    join process server on server.upid = done_thread.upid
    join thread wire_thread on wire_thread.upid = sent_thread.upid and wire_thread.name = 'wire to ' || server.name
    join thread_track wire_track on wire_track.utid = wire_thread.utid
    join slice wire on wire.track_id = wire_track.id and wire.name = 'wire push'
         and wire.ts >= sent.ts and wire.ts <= sent.ts + sent.dur
"""
WORK = """
    select count(*) as outside from slice left join slice parent on slice.parent_id = parent.id
    where slice.name = 'table push' and (parent.name is null or parent.name != 'apply')
"""


def test_an_asynchronous_job_is_traced_by_what_its_workers_send(tmp_path: Path) -> None:
    trace = traced(tmp_path, "async", "--quiet")
    check_format(trace)
    calls = list(named(trace, "wire push"))
    assert calls
    assert len(list(named(trace, "request push"))) == len(calls)
    assert len(list(named(trace, "apply"))) == len(calls)


def test_a_job_that_ends_too_early_says_so(tmp_path: Path) -> None:
    train = script(tmp_path, TRAIN)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "trace.json").write_text("of an earlier job")
    result = fleetrun(*ARGUMENTS, "--trace", "20:40", train, "sync", cwd=tmp_path, warm=True)
    assert result.code == 0
    told = [line for line in result.err.splitlines() if "--trace" in line]
    assert len(told) == 1
    assert "--trace 20:40: no worker came to step 20, the furthest made 8; there is no trace" in told[0]
    assert not (tmp_path / "log" / "trace.json").exists()


def test_a_collective_job_is_traced(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import torch, fleet
        fleet.init(is_collective=True)
        model = fleet.distributed_model(torch.nn.Linear(4, 1))
        optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), 0.1))
        for step in range(4):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    )
    arguments = ("--nproc_per_node", 2, "--device", "cpu", "--trace", "2:3", train)
    result = fleetrun(*arguments, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    trace = json.loads((tmp_path / "log" / "trace.json").read_text())
    done = Counter((event["pid"], event["name"]) for event in trace["traceEvents"] if event["ph"] == "X")
    words = ("step", "forward", "backward", "optimizer")
    processes = {process for process, _ in done}
    assert len(processes) == 2
    assert all(done[process, word] == 2 for process in processes for word in words), done
