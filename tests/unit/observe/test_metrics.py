"""Figures of a process: counted, written, read back, and shown as Prometheus wants them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from fleet.collective.parts.reduced import EVERY_S, FIRST, DdpTimes, Reduced
from fleet.errors import UsageError, UsageTypeError
from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.observe.metrics.catalogue import FIGURES
from fleet.observe.metrics.registry import Histogram, Registry, Sample, Spread, flat, quantile, samples_of
from fleet.observe.metrics.reports import MOST_NAMES, Reports
from fleet.observe.metrics.steps import StepFigures
from fleet.observe.metrics.writer import FiguresWriter
from fleet.observe.whereabouts import place_of
from fleet.ps.held.stats import Stats
from fleet.ps.server.figures import ServerFigures
from fleet.ps.server.service import Service
from fleet_tools.watching.picture import observed, read_events, read_history, read_picture
from fleet_tools.watching.prometheus import exposition

PAGE = Path(__file__).parents[3] / "docs" / "observe.md"


def clock(step: float = 1.0) -> Any:
    numbers = count()
    return lambda: next(numbers) * step


def machine(folder: Path, *processes: dict[str, Any], **more: Any) -> Path:
    """A log folder with one launcher's word in it."""
    (folder / files.FOLDER).mkdir(exist_ok=True)
    about: dict[str, Any] = {"time": time.time(), "began": time.time() - 5, "ended": None, "code": None}
    about |= {"script": "train.py", "num_servers": 1, "num_workers": 1, "processes": list(processes), **more}
    assert whole.replace(folder / files.FOLDER / "fleetrun.0.json", about)
    return folder


def process(name: str, **more: Any) -> dict[str, Any]:
    role, index = name.split()
    return {
        "name": name,
        "role": role,
        "index": int(index),
        "pid": 7,
        "log": f"{role}log.{index}",
        "state": "running",
        "life": 0,
        "rss": 1 << 20,
        "cpu": 1.5,
        "waits": [],
        **more,
    }


def write_figures(folder: Path, log: str, *samples: Sample) -> None:
    path = files.figures_file(folder / files.FOLDER, log, 7)
    assert whole.replace(path, {"time": time.time(), "samples": [one.to_json() for one in samples]})


def test_names_are_as_prometheus_wants_them_and_the_page_lists_them() -> None:
    page = PAGE.read_text()
    for name, figure in FIGURES.items():
        assert re.fullmatch(r"fleet_[a-z0-9_]+", name), name
        assert (figure.kind == "counter") == name.endswith("_total"), name
        assert not re.search(r"_(ms|mb|kb|gb|minutes|percent)\b", name), name
        assert f"`{name}`" in page, f"docs/observe.md does not list {name}"
    listed = set(re.findall(r"`(fleet_(?:process|worker|server|table)_[a-z_]+)`", page))
    assert listed <= set(FIGURES), f"docs/observe.md lists {sorted(listed - set(FIGURES))}, which nobody gives"


def test_a_sample_comes_back_from_a_file_as_it_was() -> None:
    spread = Spread((1.0, 2.0), (3, 0, 1), 9.5)
    for sample in (
        Sample("fleet_server_version", 3.0),
        Sample("fleet_table_rows", 7.0, {"table": 'a "b"|c'}),
        Sample("fleet_server_staleness_steps", spread),
    ):
        assert Sample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


@pytest.mark.parametrize(
    "form",
    [
        ["fleet_of_tomorrow", {}, 1],
        ["fleet_server_version", {"table": "x"}, 1],
        ["fleet_server_version", {}, None],
        ["fleet_server_version", {}],
        ["fleet_server_staleness_steps", {}, 3],
        ["fleet_server_staleness_steps", {}, {"bounds": [1], "counts": [1], "total": 1}],
        None,
    ],
)
def test_a_sample_of_another_form_is_left_out(form: Any) -> None:
    with pytest.raises(ValueError):
        Sample.from_json(form)
    assert samples_of({"samples": [form, ["fleet_server_version", {}, 2]]}) == [Sample("fleet_server_version", 2)]


def test_a_histogram_counts_a_value_at_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram((0, 1, 2, 4))
    for value in (0, 0, 1, 3, 4, 5):
        histogram.add(value)
    spread = histogram.read()
    assert spread == Spread((0, 1, 2, 4), (2, 1, 0, 2, 1), 13.0)
    assert [quantile(spread, share) for share in (0.1, 0.5, 2 / 3, 0.99)] == [0, 1, 3, 4]
    assert quantile(Histogram((1,)).read(), 0.5) == 0.0


def test_steps_have_parts_that_do_not_overlap() -> None:
    steps = StepFigures(clock=clock(), wall=lambda: 1e9)
    inside = [0.0]
    steps.inside = lambda: inside[0]
    assert list(steps.read()) == []
    assert list(steps.data(iter("ab"))) == ["a", "b"]  # 3 looks of 1 s each
    for _ in range(2):
        steps.begin_forward(32)
        inside[0] += 0.25  # rows are pulled meanwhile
        steps.end_forward()
        steps.begin_step()
        inside[0] += 0.5
        steps.end_step()
    found: dict[str, float] = {}
    for sample in steps.read():
        found |= flat(sample)
    part = "fleet_worker_part_seconds_total|"
    assert (found["fleet_worker_steps_total"], found["fleet_worker_samples_total"]) == (2, 64)
    assert (found[f"{part}data"], found[f"{part}forward"]) == (3.0, 1.5)
    assert (found[f"{part}backward"], found[f"{part}optimizer"]) == (2.0, 1.0)
    assert (found["fleet_worker_step_seconds|count"], found["fleet_worker_step_seconds|sum"]) == (1, 4.0)
    assert found["fleet_worker_last_step_timestamp_seconds"] == 1e9


def test_a_loop_that_is_left_early_closes_its_data() -> None:
    closed = []

    def batches() -> Any:
        try:
            yield from range(5)
        finally:
            closed.append(True)

    for batch in StepFigures().data(batches()):
        if batch == 2:
            break
    assert closed == [True]


def test_what_a_script_reports_is_its_last_value() -> None:
    steps = StepFigures()
    reports = Reports(steps)
    reports.report(loss=0.5, auc=1)
    reports.report(loss=torch.tensor([0.25], requires_grad=True), samples=100)
    steps.begin_forward(7)  # the script counts itself
    reports.report(samples=20)
    reports.show({"lr": 0.1, "text": "x", "on": True, "no name": 1.0})
    found = {sample.labels["name"]: sample.value for sample in reports.read()}
    assert found == {"loss": 0.25, "auc": 1.0, "lr": 0.1}
    assert steps.num_samples == 120


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"loss": "low"}, UsageTypeError, "loss must be a number, got 'low'"),
        ({"loss": torch.zeros(2)}, UsageTypeError, r"one number, got a tensor of shape \(2,\)"),
        ({"two words": 1}, UsageError, "'two words' is no name"),
        ({"samples": -1}, UsageError, "samples must be a whole number >= 0, got -1"),
    ],
)
def test_what_is_no_number_is_refused(values: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Reports(StepFigures()).report(**values)


def test_names_that_never_end_are_refused() -> None:
    reports = Reports(StepFigures())
    with pytest.raises(UsageError, match=f"name {MOST_NAMES + 1} of this process"):
        for step in range(200):
            reports.report(**{f"loss_{step}": 0.0})
    assert len(list(reports.read())) == MOST_NAMES


def test_a_process_writes_its_figures_and_a_source_that_fails_costs_only_its_own(tmp_path: Path) -> None:
    registry = Registry()
    registry.add(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    registry.add(lambda: [Sample("fleet_server_version", 3)])
    writer = FiguresWriter(tmp_path / "workerlog.0", registry, every_s=60)
    writer.stop()
    (path,) = tmp_path.iterdir()
    written = whole.read(path)
    assert written is not None
    assert samples_of(written) == [Sample("fleet_server_version", 3)]


def test_a_folder_that_is_gone_is_only_a_lost_figure(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert not whole.replace(gone / "x.json", {})
    assert not files.append(gone / "x.jsonl", {})
    writer = FiguresWriter(gone / "workerlog.0", Registry(), every_s=0.001)
    writer.stop()


def test_half_written_files_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    machine(tmp_path, process("worker 0"), process("server 0"))
    folder = tmp_path / files.FOLDER
    write_figures(tmp_path, "workerlog.0", Sample("fleet_worker_steps_total", 5))
    (folder / "serverlog.0.7.json").write_text('{"time": 1, "samp')
    (folder / "fleetrun.1.json").write_text("{")
    (folder / "fleetrun.2.json").write_text('{"time": 1, "processes": [3]}')
    (folder / "fleetrun.0.events.jsonl").write_text('{"time": 2, "text": "b"}\n[1]\n{"text": 1}\n{"time": 3, "te')
    (folder / "workerlog.0.events.jsonl").write_text('{"time": 1, "text": "a", "event": "checkpoint"}\n')
    (folder / "fleetrun.0.history.jsonl").write_text('{"t": 1, "p": {"worker 0": {}}}\n{"t": 2, "p"')
    picture = read_picture(tmp_path)
    assert picture.problems == [
        "serverlog.0.7.json is damaged or half-written",
        "fleetrun.1.json is damaged or half-written",
        "fleetrun.2.json is damaged or half-written",
    ]
    assert picture.processes[0].figures()["fleet_worker_steps_total"] == 5
    assert [(event["who"], event["text"]) for event in read_events(tmp_path)] == [
        ("worker 0", "a"),
        ("fleetrun.0", "b"),
    ]
    assert [line["t"] for line in read_history(tmp_path)] == [1]


def test_a_launcher_that_was_killed_is_gone_and_so_are_its_processes(tmp_path: Path) -> None:
    machine(tmp_path, process("worker 0"), process("worker 1", state="dead"), time=time.time() - 60)
    picture = read_picture(tmp_path)
    assert picture.is_over
    assert [seen.state for seen in picture.processes] == ["gone", "dead"]
    assert not any(seen.is_up for seen in picture.processes)


def test_a_folder_without_figures_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder; give the --log_dir of a job"):
        observed(tmp_path / "nothing")
    with pytest.raises(UsageError, match="no figures of a job are in it; .* FLEET_METRICS=0"):
        observed(tmp_path)


def exposed(tmp_path: Path) -> bytes:
    waits = [{"what": "worker 1", "workers": [1], "since": time.time() - 12}]
    machine(tmp_path, process("worker 0", waits=waits, life=2), process("server 0"), process("worker 1", state="dead"))
    spread = Spread((1.0, 2.0), (3, 0, 1), 9.5)
    write_figures(tmp_path, "workerlog.0", Sample("fleet_worker_steps_total", 5))
    rows = Sample("fleet_table_rows", 7, {"table": 'odd "name"\n\\'})
    write_figures(tmp_path, "serverlog.0", rows, Sample("fleet_server_staleness_steps", spread))
    write_figures(tmp_path, "workerlog.1", Sample("fleet_worker_steps_total", 9))
    return exposition(tmp_path)


def test_prometheus_reads_what_processes_wrote(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    text = exposed(tmp_path).decode()
    found = {
        (one.name, *(one.labels.get(label, "") for label in ("role", "index", "table", "le"))): one.value
        for family in parser.text_string_to_metric_families(text)
        for one in family.samples
    }
    assert found["fleet_worker_steps_total", "worker", "0", "", ""] == 5
    assert found["fleet_table_rows", "server", "0", 'odd "name"\n\\', ""] == 7
    assert found["fleet_process_restarts_total", "worker", "0", "", ""] == 2
    assert found["fleet_process_waiting_seconds", "worker", "0", "", ""] == pytest.approx(12, abs=5)
    assert found["fleet_process_up", "worker", "1", "", ""] == 0
    assert ("fleet_worker_steps_total", "worker", "1", "", "") not in found, "it has ended"
    stale = [found["fleet_server_staleness_steps_bucket", "server", "0", "", le] for le in ("1", "2", "+Inf")]
    assert stale == [3, 3, 4]
    assert found["fleet_server_staleness_steps_sum", "server", "0", "", ""] == 9.5


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
def test_promtool_has_nothing_to_say(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    told = subprocess.run(["promtool", "check", "metrics"], input=exposed(tmp_path), capture_output=True, timeout=60)
    assert (told.returncode, told.stdout + told.stderr) == (0, b"")


def test_a_worker_without_steps_says_where_in_its_script_it_is(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def load(wait):\n    wait()\n\n\nload(look)\n")
    found: list[str] = []

    def look() -> None:
        frame = sys._getframe(1)  # that of the script
        found.append(place_of(frame))

    exec(compile(script.read_text(), str(script), "exec"), {"look": look})
    assert found == ["train.py:2 in load"]
    assert place_of(None) == ""
    begun = StepFigures(clock=iter((100.0, 130.0)).__next__)
    assert begun.idle_s == 0
    begun.end_step()
    assert begun.idle_s == 30


class Ddp:
    """Tells what torch would, of the step that was timed last."""

    def __init__(self) -> None:
        self.told = {"iteration": 0, "backward_comm_time": 0, "backward_compute_comm_overlap_time": 0}
        self.num_asked = 0

    def parameters(self) -> list[torch.Tensor]:
        return [torch.empty(1, device="meta")]  # no CPU's: how often steps are timed stays torch's

    def _get_ddp_logging_data(self) -> dict[str, int]:
        self.num_asked += 1
        return self.told


def test_torch_is_asked_for_each_of_its_first_steps_and_then_by_the_clock() -> None:
    ddp, found, now = Ddp(), Reduced(), [0.0]
    times = DdpTimes(ddp, found, lambda: now[0])  # type: ignore[arg-type]
    times.look()
    assert list(found.read()) == [], "nothing was timed"
    for step in range(1, FIRST):
        ddp.told = {"iteration": step, "backward_comm_time": 2_000_000, "backward_compute_comm_overlap_time": 500_000}
        times.look()
    assert (ddp.num_asked, found.num_timed) == (FIRST, FIRST - 1)
    assert found.seconds == pytest.approx(0.002 * found.num_timed)
    assert found.overlap_s == pytest.approx(found.seconds / 4)
    for _ in range(100):
        times.look()
    assert ddp.num_asked == FIRST
    now[0] += EVERY_S
    times.look()
    assert (ddp.num_asked, found.num_timed) == (FIRST + 1, FIRST - 1), "this step was counted before"


def test_reductions_that_are_waited_for_are_timed_on_a_cpu() -> None:
    found = Reduced()
    for tensors in ([], [torch.empty(1, device="meta")], [torch.empty(1)]):
        with found.waiting(tensors):
            pass
    with pytest.raises(ZeroDivisionError), found.waiting([torch.empty(1)]):
        _ = 1 / 0
    assert found.num_timed == 1
    assert found.overlap_s == 0 < found.seconds


def test_a_server_tells_where_its_time_goes() -> None:
    stats = Stats()
    stats.stepped(2.0, 0.5)
    stats.applied(0.25)
    stats.answered(1.0)
    assert stats.parts() == {"wait": 2.0, "apply": 0.75, "answer": 1.0}
    stats.native = lambda: {"answer_ns": 500_000_000}
    assert stats.parts()["answer"] == 1.5
    service = Service()
    told = list(ServerFigures(service, lambda: {"token": 3}).read())
    assert Sample("fleet_server_refused_calls_total", 3, {"why": "token"}) in told
    assert Sample("fleet_server_part_seconds_total", 0.0, {"part": "wait"}) in told
