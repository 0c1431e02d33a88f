"""The profiler: a sorted table, a trace, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fleet.errors import NotReadyError, UsageError
from fleet_paddle.programs.measures import profiler


def test_a_table_and_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = torch.ones(64, 64)
    with profiler.profiler("CPU", "calls", tmp_path / "trace.json"):
        matrix.sum()
        profiler.reset_profiler()
        for _ in range(3):
            matrix.mm(matrix)
        matrix.tanh()
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["Event", "Calls", "Total"]
    assert [row.split()[:2] for row in rows] == [["aten::mm", "3"], ["aten::tanh", "1"]]
    assert sum(float(row.split()[-1]) for row in rows) == pytest.approx(1, abs=1e-3)
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="state must be one of CPU, GPU, All, got 'TPU'"):
        profiler.start_profiler("TPU")
    with pytest.raises(UsageError, match="tracer_option must be one of"):
        profiler.start_profiler("CPU", "Some")
    with pytest.raises(UsageError, match="sorted_key must be one of None, default, calls, total"):
        profiler.stop_profiler("size")
    with pytest.raises(NotReadyError, match=r"call start_profiler\(\) first"):
        profiler.stop_profiler()
    with pytest.raises(NotReadyError, match=r"call start_profiler\(\) first"):
        profiler.reset_profiler()
