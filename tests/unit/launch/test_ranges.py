"""Numbers of workers and servers that may change: where they cannot, one line says so before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.errors import NotSupportedError, UsageError
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.planning.mistakes import refuse_mistakes
from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.render import render

JOB = Options("train.py", server_num=1, worker_num=4, worker_range=Nodes(1, 4), durable="kept")
MEETING: dict[str, Any] = {"master": "10.0.0.1:6000", "nnodes": Nodes(2, 2)}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "without a journal": ({"durable": None}, "processes come and go in a durable job only; add --durable DIR"),
    "copies": ({"standby": "sync"}, "not while servers have copies; leave --standby out, or give one number"),
    "copies on two machines": ({"standby": "sync", **MEETING}, "changes on one machine only; give one number"),
    "two machines": (MEETING, "the number of workers changes on one machine only; give one number"),
    "named machines": ({"servers": "a:1", "workers": "b"}, "the number of workers changes on one machine only"),
    "machines of an engine": ({"nnodes": Nodes(2, 2), "render": "slurm"}, "changes on one machine only"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_workers_cannot_come_and_go(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given, message = REFUSED[name]
    with pytest.raises((UsageError, NotSupportedError), match=f"--worker_num 1:4: .*{message}") as caught:
        refuse_mistakes(Options(**{**vars(JOB), **given}))
    assert "\n" not in str(caught.value)


def test_an_engine_that_runs_fleetrun_is_given_the_range() -> None:
    job = Options(**{**vars(JOB), "render": "slurm", "server_range": Nodes(1, 2)})
    assert "fleetrun --server_num 1:2 --worker_num 1:4 --durable kept train.py" in render(job)
    assert EngineJob(job).num_workers == 4, "the machine must have room for all"


@pytest.mark.parametrize("engine", ["k8s", "torchx", "ray"])
def test_an_engine_that_starts_the_processes_has_one_number(engine: str) -> None:
    with pytest.raises(UsageError, match=f"--worker_num 1:4: with --render {engine} there is one number"):
        render(Options(**{**vars(JOB), "render": engine}))
