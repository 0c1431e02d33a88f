"""Traces as they are recorded: which steps, marks for torch.profiler."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fleet.errors import UsageError
from fleet.launch.cli import run
from fleet.observe.metrics.steps import StepFigures
from fleet.observe.tracing import profiler
from fleet.observe.tracing.tracer import Tracer, tracer
from fleet.observe.tracing.window import Window
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.parts.meters import measured


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "--trace 'x' is neither a step, such as 20, nor a range of steps, such as 20:40"),
        ("1:2:3", "--trace '1:2:3' is neither"),
        ("-1:5", "--trace '-1:5' is neither"),
        ("40:20", "--trace 40:20: the first step comes first; write 20:40"),
        ("0:5", "--trace 0:5: the first step of a job is 1"),
        ("1:99999", "99,999 steps are too many to look at; record at most 10,000"),
    ],
)
def test_a_window_that_is_none_is_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=message.replace("'", ".")):
        Window.parse(text)
    assert run(["--server_num", "1", "--worker_num", "1", f"--trace={text}", str(tmp_path / "train.py")]) == 2
    told = capsys.readouterr().err.strip()
    assert message in told
    assert "\n" not in told


def test_a_window_prints_as_it_was_written() -> None:
    assert str(Window.parse("20:40")) == "20:40"
    assert Window.parse("20:40").in_words == "steps 20 to 40"
    assert Window.parse("7") == Window(7, 7)


def test_a_tracer_records_its_steps_and_no_others() -> None:
    tracer = Tracer()
    tracer.after_step(1)
    assert not tracer.is_on
    tracer.arm(Window(2, 3))
    found = []
    for step in range(1, 6):
        found.append(tracer.is_on)
        tracer.after_step(step)
    assert found == [False, True, True, False, False]
    assert tracer.is_over
    steps = [event for event in tracer.take() if event[0] == "span"]
    assert [event[5]["step"] for event in steps] == [2, 3]
    assert steps[0][4] == steps[1][3]  # one begins where the other ends
    assert tracer.take() == []


def test_torch_profiler_shows_the_same_words() -> None:
    assert profiler.begin("pull") is None  # nobody looks
    steps = StepFigures()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        list(steps.data(iter([1, 2])))
        steps.begin_forward(4)
        with measured("pull"):
            torch.ones(2).sum()
        steps.end_forward()
        steps.begin_step()
        with measured("push"):
            pass
        steps.end_step()
    names = {event.key for event in seen.key_averages()}
    assert {f"fleet.{part}" for part in ("data", "forward", "pull", "backward", "optimizer", "push")} <= names


def test_a_call_is_recorded_if_its_header_says_so_whatever_the_step_is_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push of a thread beside the training may have been made just before the window began, and sent after."""
    kept: list[list[object]] = []
    monkeypatch.setattr(tracer, "is_armed", True)
    monkeypatch.setattr(tracer, "keep", kept.append)
    for is_on in (True, False):
        monkeypatch.setattr(tracer, "is_on", is_on)
        for is_marked in (True, False):
            header = ps_pb2.BoardRequest.Header(caller=ps_pb2.Caller(worker=3, is_traced=is_marked))
            ServerCall(LocalTransport(Service()), "Board", header, (), 10.0, 0.0).result()
            assert [event[1] for event in kept if event[0] == "wire"] == ["Board"] * is_marked
            kept.clear()
