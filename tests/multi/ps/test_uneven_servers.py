"""Workers of a synchronous job with servers run out of batches: the others' steps go on, and all meet afterwards."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from support.collective import uneven_job
from support.collective.uneven_job import (
    LENGTHS,
    NUM_KEYS,
    Batch,
    Net,
    batch_of,
    seven_samples,
    three_pairs,
    write_file,
)
from support.jobs import Result, RunningJob, fleetrun, script

pytestmark = pytest.mark.timeout(120)
NUM_WORKERS = 3
NUM_EPOCH_ENDS = 6  # of two epochs, of a few samples, of seven, of a file that is trained on, and read


class Truth:
    """One process that makes every step with the batches of the workers that have one."""

    def __init__(self) -> None:
        self.rows = nn.Embedding(NUM_KEYS, 2)
        nn.init.constant_(self.rows.weight, 0.1)
        self.model = Net(self.rows)
        self.optimizers = (
            torch.optim.Adagrad(self.rows.parameters(), lr=0.1),
            torch.optim.Adam(self.model.layer.parameters(), lr=0.05),
        )
        self.num_steps = 0

    def step(self, batches: list[Batch]) -> None:
        """The mean over those who have a batch."""
        losses = [nn.functional.mse_loss(self.model(ids), targets) for ids, targets in batches]
        torch.stack(losses).mean().backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.num_steps += 1

    def layers(self) -> list[list[float]]:
        return [one.flatten().tolist() for one in self.model.layer.parameters()]


def expected() -> dict[str, Any]:
    """What every worker should report."""
    truth, layers = Truth(), []
    for epoch, lengths in enumerate(LENGTHS):
        for number in range(max(lengths)):
            truth.step([batch_of(one, epoch, number) for one, length in enumerate(lengths) if number < length])
        layers.append(truth.layers())
    ids, targets = seven_samples()
    truth.step([(ids[first : first + 2], targets[first : first + 2]) for first in (0, 2, 4)])
    truth.step([(ids[6:], targets[6:])])
    ids, targets = three_pairs()
    truth.step([(ids[:2], targets[:2])])
    truth.step([(ids[2:], targets[2:])])
    layers.append(truth.layers())
    return {"layers": layers, "rows": truth.rows.weight.tolist(), "version": truth.num_steps + NUM_EPOCH_ENDS}


def compare(folder: Path) -> None:
    """Every worker's report with what it should be."""
    wanted = expected()
    reports = [json.loads((folder / f"{worker}.json").read_text()) for worker in range(NUM_WORKERS)]
    assert sorted(report["trained"] for report in reports) == [[], [], [2, 1]]
    assert sorted(report["unread"] for report in reports) == [0, 0, 3]
    for worker, report in enumerate(reports):
        for found, truth in zip(report["layers"], wanted["layers"], strict=True):
            for one, other in zip(found, truth, strict=True):
                assert one == pytest.approx(other, abs=1e-6)
        assert torch.tensor(report["rows"]).numpy() == pytest.approx(torch.tensor(wanted["rows"]).numpy(), abs=1e-6)
        assert report["layers"] == reports[0]["layers"]
        assert report["losses"] == reports[0]["losses"]
        assert report["steps"] == [max(LENGTHS[0]), max(LENGTHS[0]) + max(LENGTHS[1])]  # on all, when an epoch is over
        assert report["own"] == LENGTHS[0][worker] + LENGTHS[1][worker]
        assert report["counted"] == [f"step-{steps:08}" for steps in report["steps"]]
        assert report["version"] == [wanted["version"]] * 2
        assert report["read"] == 4 * (1 + worker)
        assert report["few"] == int(worker < 2)
        assert report["saved"] == reports[0]["saved"]
        assert [name[-1] for name in report["saved"]] == ["1", "3"]  # not while two have no batch left
        assert report["sizes"] == [2] + [1] * (worker == 0)


def ended(result: Result) -> None:
    """The job has ended well."""
    assert result.code == 0, f"{result.out}\n{result.err}"


@pytest.mark.parametrize("how", [(), ("ahead",)], ids=["as they come", "read ahead"])
def test_workers_meet_after_uneven_epochs(how: tuple[str, ...], tmp_path: Path) -> None:
    write_file(tmp_path)
    arguments = ("--server_num", 2, "--worker_num", NUM_WORKERS, uneven_job.__file__, *how)
    ended(fleetrun(*arguments, cwd=tmp_path, warm=True, limit_s=60))
    compare(tmp_path)


@pytest.mark.exhaustive
def test_processes_die_while_a_worker_passes(tmp_path: Path) -> None:
    durable = ("--server_num", 2, "--worker_num", NUM_WORKERS, "--durable", "kept")
    how = ("slow", "dies1", "dies2")
    write_file(tmp_path)
    with RunningJob([*durable, uneven_job.__file__, *how], tmp_path, warm=True) as job:
        job.read("tail")
        for process in ("server1", "worker2", "server0"):
            os.kill(int(job.read(f"{process}.pid")), signal.SIGKILL)
        (tmp_path / "go-on").touch()
        ended(job.finish(60))
    assert (tmp_path / "died1").exists()
    assert (tmp_path / "died2").exists()
    compare(tmp_path)


COUNTS = """
    import sys
    import torch
    import fleet

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = sys.argv[1] == "async"
    fleet.init(strategy=strategy)
    if fleet.is_server():
        sys.exit(fleet.run_server())
    model = fleet.distributed_model(fleet.nn.Embedding(2))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    fleet.init_worker()
    own = [torch.arange(4)] * (7, 5)[fleet.worker_index()]
    data = fleet.data.shard(lambda: own, uneven="join")
    with fleet.Checkpoint("runs", model=model, optimizer=optimizer, data=data, keep=9) as saved:
        step = 0
        for epoch in range(2):
            for ids in data:
                model(ids).sum().backward()
                optimizer.step()
                step += 1
                if fleet.steps_done() % 4 == 0:
                    saved.save(fleet.steps_done())
        if sys.argv[1] == "sync":
            saved.save(step)
            with open(f"done-{fleet.worker_index()}", "w") as file:
                file.write(f"{step} {fleet.steps_done()} {saved.load()}")
    fleet.stop_worker()
"""


def test_workers_with_other_numbers_of_batches_save_together(tmp_path: Path) -> None:
    train = script(tmp_path, COUNTS)
    ended(fleetrun("--server_num", 1, "--worker_num", 2, train, "sync", cwd=tmp_path, warm=True, limit_s=60))
    assert [(tmp_path / f"done-{worker}").read_text() for worker in range(2)] == ["14 14 14", "10 14 14"]
    assert uneven_job.folders(str(tmp_path / "runs")) == [f"step-{step:08}" for step in (4, 8, 12, 14)]


def test_a_save_that_another_worker_will_not_come_to_is_left_out(tmp_path: Path) -> None:
    train = script(tmp_path, COUNTS)
    result = fleetrun("--server_num", 1, "--worker_num", 2, train, "async", cwd=tmp_path, warm=True, limit_s=60)
    ended(result)
    assert "save(12) is left out: worker 1 went on, or left, without save(12)" in result.out
