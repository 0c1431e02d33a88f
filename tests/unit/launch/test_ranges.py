"""Numbers of workers and servers that may change: where they cannot, one line says so before anything starts."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from fleet.errors import NotSupportedError, UsageError
from fleet.jobfiles.scaling import ScaleNotes
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.durable.scaling import Scaling, first_workers
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.make import make_plan
from fleet.launch.planning.mistakes import refuse_mistakes
from fleet.net import Endpoint
from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.render import render

JOB = Options("train.py", server_num=1, worker_num=4, worker_range=Nodes(1, 4), durable="kept")
MEETING: dict[str, Any] = {"master": "10.0.0.1:6000", "nnodes": Nodes(2, 2)}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "without a journal": ({"durable": None}, "processes come and go in a durable job only; add --durable DIR"),
    "copies": ({"standby": "sync"}, "not while servers have copies; leave --standby out, or give one number"),
    "copies on two machines": ({"standby": "sync", **MEETING}, "not while servers have copies; leave --standby out"),
    "named machines": ({"servers": "a:1", "workers": "b"}, "--servers and --workers name every process"),
}


OF_TWO_MACHINES: dict[str, tuple[dict[str, Any], str]] = {
    "servers": ({"server_num": 2, "server_range": Nodes(1, 2)}, "the number of servers changes on one machine only"),
    "a rule": ({"scale": "workers to keep servers at 70% of a core"}, "it looks at one machine's servers"),
}


@pytest.mark.parametrize("name", OF_TWO_MACHINES)
def test_what_changes_on_one_machine_only(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given, message = OF_TWO_MACHINES[name]
    with pytest.raises(NotSupportedError, match=message):
        refuse_mistakes(Options(**{**vars(JOB), **MEETING, **given}))


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


class Crew:
    """Notes which workers it is to start."""

    children: tuple[()] = ()

    def __init__(self) -> None:
        self.started: list[int] = []

    def add(self, ready: Any) -> None:
        self.started += [one.plan.index for one in ready]


def test_a_wish_that_is_beyond_the_limits_by_now_is_what_they_allow(tmp_path: Path) -> None:
    """A job with 1:4 had 3 workers, and is started again with 1:2; or somebody wants 3 then."""
    options = replace(JOB, worker_num=2, worker_range=Nodes(1, 2), durable=str(tmp_path), log_dir=str(tmp_path))
    ports = [Endpoint("127.0.0.1", 6170 + number) for number in range(3)]
    plan = make_plan(options, Machine(), JobLayout((ports[0],), (ports[1], ports[2]), (0,), (0, 1), None), {})
    notes, crew = ScaleNotes(tmp_path), Crew()
    notes.wish(3)
    assert first_workers(options, Nodes(1, 2), plan.layout) == [0, 1]
    with ExitStack() as holds:
        scaling = Scaling(options, plan, Nodes(1, 2), holds, lambda told: scaling.hear(told))
        scaling.look(cast("Any", crew), cast("Any", None))
        assert crew.started == [0, 1]
        notes.wish(4)
        scaling.look(cast("Any", crew), cast("Any", None))
        assert crew.started == [0, 1, 0, 1], "the stub has no worker yet"
