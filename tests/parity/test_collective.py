"""Collective training equals one process with the whole batch, at every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.collective.collective_job import LIMIT_S, run_cases
from support.collective.collective_parity import CASES, MORE

LIMIT = 1e-5
"""Relative, at every one of 50 steps, or 20 of four workers."""
REST = [pytest.param(2, MORE, marks=pytest.mark.exhaustive), pytest.param(4, CASES, marks=pytest.mark.exhaustive)]


@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize(("num_workers", "cases"), [(1, CASES), (2, CASES), *REST])
def test_losses_are_those_of_one_process(num_workers: int, cases: list[str], tmp_path: Path) -> None:
    """All cases in one job: to start it costs more than most of them."""
    found = run_cases("support.collective.collective_parity", cases, num_workers, tmp_path)
    differences = {
        (case, worker): got
        for case, workers in found.items()
        for worker, got in enumerate(workers)
        if "error" in got or not all(value < LIMIT for value in got.values())
    }
    assert len(found) == len(cases)
    assert differences == {}
