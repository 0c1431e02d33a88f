"""A run that is saved, ended and begun again, by other workers and in another mode, comes to the very same bits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import fleet
from support.durable import checkpoint_job
from support.durable.checkpoint_job import expected, load_all
from support.jobs import fleetrun

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    fleet.init(is_collective=True)
    yield
    fleet.shutdown()


def run(plan: str, num_workers: int, folder: Path, *options: object) -> tuple[str, list[dict[str, Any]]]:
    """What the job told on the terminal, and what each worker reports."""
    program = Path(checkpoint_job.__file__)
    where = ("--nproc_per_node", num_workers, "--device", "cpu")
    done = fleetrun(*where, *options, program, plan, folder, cwd=folder, warm=True)
    assert done.code == 0, done.err
    return done.err, [json.loads((folder / f"{plan}.{worker}.json").read_text()) for worker in range(num_workers)]


def test_one_step_after_another_in_any_world_and_after_a_worker_was_killed(tmp_path: Path, one_worker: None) -> None:
    right = {kind: expected(kind) for kind in ("sgd", "adam")}
    _, first = run("first", 2, tmp_path)
    _, (after, *_) = run("next", 4, tmp_path)
    told, (last, *_) = run("last", 2, tmp_path, "--max_restart", 1)
    ends = [first[0]["save_all"], after["load_all"], after["save_all"], last["load_all"], dict(load_all(tmp_path))]
    names = [name for found in ends for name in found]
    assert {"2-stage3-adam -> 1-reduce-adam", "2-reduce-sgd -> 4-stage3-sgd", "4-hybrid-adam -> 2-stage3-adam"} <= {
        *names
    }
    assert len(names) > 40
    wrong = [name for found in ends for name, end in found.items() if end != right[name.rpartition("-")[2]]]
    assert wrong == []
    for report in first:
        check_local(report["local"])
    assert first[0]["local"]["momenta"] != first[1]["local"]["momenta"]
    assert first[0]["local"]["drawn"] != first[1]["local"]["drawn"]
    check_faults(first[0]["faults"], first[1]["faults"])
    check_restart(tmp_path, told, last["killed"])


def check_local(found: dict[str, list[Any]]) -> None:
    for uninterrupted, again in found.values():
        assert uninterrupted == again


def check_faults(one: dict[str, str], other: dict[str, str]) -> None:
    """Both workers tell the same; the worker whose own code raised tells what it raised."""
    assert one["write"] == other["write"]
    assert "checkpoint step 2 was not written: worker 1: " in one["write"]
    assert "ZeroDivisionError" in one["write"]
    assert "worker 1 saves step 3 while worker 0 saves step 2" in one["steps"]
    assert "worker 1: " in one["shared"]
    assert "give a folder on a file system that all machines share" in other["shared"]
    assert "checkpoint step 2 was not written: worker 1: division by zero" in one["capture"]
    assert other["capture"] == "division by zero"
    assert "waited 0.5 s for worker 1 to write; is it still there, and does it save too?" in one["lonely"]
    assert "give the same folder and parts on every worker" in one["folder"]
    assert "worker 1 has " in one["parts"]
    assert " where worker 0 has 'nothing'" in one["parts"]
    assert one["older"] == other["older"]
    assert "it has step 1, which a load would prefer" in one["older"]
    for told in (one, other):
        assert "good" not in told
        assert told["left"] == "['step-00000001']"
        assert told["loaded"] == "1"


def check_restart(folder: Path, told: str, found: dict[str, Any]) -> None:
    """A worker was killed, and the job went on from its last checkpoint to the same end."""
    assert "restarting the job, attempt 1 of 1" in told
    assert found["begin"] in (6, 9)  # that of step 9 was under way
    assert sorted(path.name for path in (folder / "killed").iterdir()) == ["step-00000015", "step-00000018"]
    assert found["values"] == uninterrupted(20)


def uninterrupted(num_steps: int) -> list[Any]:
    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.copy_(torch.arange(6.0).view(2, 3))
        model.bias.zero_()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.75)
    samples = torch.randint(-4, 5, (64, 3), generator=torch.Generator().manual_seed(1)).float()
    batches = fleet.data.shard(samples, 4, shuffle=True)
    step = 0
    while step < num_steps:
        for x in batches:
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            step += 1
            if step == num_steps:
                break
    return [one.tolist() for one in model.state_dict().values()]
