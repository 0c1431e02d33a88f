"""Real processes leave the very bits that threads in one process do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.jobs import fleetrun
from support.parity import job as parity_job
from support.parity.around import RULES, batches
from support.parity.beside_servers import Recipe, train
from support.parity.saved import differences, saved

LIMIT_S = 240.0
NUM_STEPS = 20


@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize(
    ("num_servers", "num_workers", "rule"),
    [(3, 2, "adam"), (2, 4, "adagrad")],
)
def test_processes_equal_threads(num_servers: int, num_workers: int, rule: str, tmp_path: Path) -> None:
    script = Path(parity_job.__file__)
    result = fleetrun(
        *("--server_num", num_servers, "--worker_num", num_workers),
        *(script, "--rule", rule, "--steps", NUM_STEPS, "--out", tmp_path),
        cwd=tmp_path,
        environ={"PYTHONPATH": str(script.parents[2])},
        limit_s=LIMIT_S,
        warm=True,
    )
    assert result.code == 0, result.err
    curves = [json.loads((tmp_path / f"worker{index}.json").read_text()) for index in range(num_workers)]
    losses = train(num_workers, 1, Recipe(RULES[rule]), batches(NUM_STEPS), save=tmp_path / "threads")
    assert [sum(step) / num_workers for step in zip(*curves, strict=True)] == losses
    assert differences(saved(tmp_path / "saved"), saved(tmp_path / "threads")) == []
