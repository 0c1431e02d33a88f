"""Runs that save and load checkpoints, as a script that fleetrun starts: checkpoint_job.py PLAN FOLDER.

Sums are exact in float32, in whatever order: inputs are small whole numbers, batches and learning rates powers of two.
With SGD the loss is a square, and five steps need no more bits than there are. With Adam the loss is linear, so that
gradients stay exact though parameters do not. Hence every division of the work gives the same bits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

import fleet
from fleet.api import fleet as job
from fleet.collective.model import DistributedModel
from fleet.collective.optimizer import CollectiveOptimizer
from fleet.errors import FleetError
from fleet.runtime.collective_job import CollectiveJob
from fleet.runtime.training import save_store
from fleet.runtime.training.checkpoint import Checkpoint

NUM_STEPS, SAVED_AT, BATCH = 5, 3, 4
CASES = {
    "sgd": ("reduce", "stage3"),
    "adam": ("reduce", "stage1", "stage3", "hybrid"),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "reduce": {},
    "stage1": {"stage": 1},
    "stage3": {"stage": 3, "segment_broadcast_MB": 1e-5},
    "hybrid": {"stage": 3, "hybrid_dp": True, "sharding_degree": 2},
}


class Net(nn.Module):
    """Five rows: four workers hold 2, 2, 1 and none of them."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(4)
        self.a = nn.Linear(6, 5)
        self.b = nn.Linear(6, 5, bias=False)
        for parameter in self.parameters():
            parameter.data = torch.randint(-2, 3, parameter.shape, generator=generator).float()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> Any:
        self.seen += 1
        return self.a(x) + self.b(x)


def optimizer_of(model: nn.Module, kind: str) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
    return torch.optim.Adam(model.parameters(), lr=0.25)


def loss_of(output: torch.Tensor, target: torch.Tensor, kind: str) -> torch.Tensor:
    return ((output - target) ** 2 if kind == "sgd" else output * target).sum() / len(target)


def batch(step: int, worker: int = 0, num_workers: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randint(-1, 2, (BATCH, 6), generator=generator).float()
    y = torch.randint(-2, 3, (BATCH, 5), generator=generator).float()
    size = BATCH // num_workers
    return x[worker * size :][:size], y[worker * size :][:size]


class Run:
    """One model in one mode, from its beginning."""

    def __init__(self, mode: str, kind: str) -> None:
        strategy = fleet.DistributedStrategy()
        if mode == "post_local":
            strategy.post_local = True
            strategy.post_local_configs = {"k_steps": 4, "begin_step": 1}
        elif SETTINGS[mode]:
            strategy.sharding = True
            strategy.sharding_configs = SETTINGS[mode]
        pairs = CollectiveJob(job.role.identity, strategy, fleet.device)
        self.kind = kind
        self.model: DistributedModel = pairs.add_model(Net())
        self.optimizer: CollectiveOptimizer = pairs.add_optimizer(optimizer_of(self.model, kind))

    def checkpoint(self, folder: Path, **more: Any) -> Checkpoint:
        return Checkpoint(folder, model=self.model, optimizer=self.optimizer, **more)

    def train(self, steps: Iterable[int]) -> None:
        for step in steps:
            x, y = batch(step, fleet.worker_index(), fleet.worker_num())
            loss_of(self.model(x), y, self.kind).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def values(self) -> dict[str, Any]:
        return {name: one.tolist() for name, one in self.model.state_dict().items()}


def expected(kind: str) -> dict[str, Any]:
    """What plain torch comes to, in one process and without a pause."""
    model = Net()
    optimizer = optimizer_of(model, kind)
    for step in range(NUM_STEPS):
        x, y = batch(step)
        loss_of(model(x), y, kind).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: one.tolist() for name, one in model.state_dict().items()}


def load_all(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Load what other numbers of workers have saved and go on to the end.

    Of the many pairs of modes with Adam several workers take every second one: each mode is loaded from and into.
    """
    for number, (kind, mode) in enumerate(cases()):
        others = [one for one in sorted(folder.glob(f"*-{kind}")) if not one.name.startswith(f"{fleet.worker_num()}-")]
        for saved in others[number % 2 :: 2] if kind == "adam" and fleet.worker_num() > 1 else others:
            run = Run(mode, kind)
            assert run.checkpoint(saved).load() == SAVED_AT
            run.train(range(SAVED_AT, NUM_STEPS))
            yield f"{saved.name} -> {fleet.worker_num()}-{mode}-{kind}", run.values()


def save_all(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Save half way, in every mode, and go on to the end."""
    for kind, mode in cases():
        run = Run(mode, kind)
        run.train(range(SAVED_AT))
        name = f"{fleet.worker_num()}-{mode}-{kind}"
        with run.checkpoint(folder / name) as checkpoint:
            checkpoint.save(SAVED_AT)
            run.train(range(SAVED_AT, NUM_STEPS))
        yield name, run.values()


def cases() -> list[tuple[str, str]]:
    num_workers = fleet.worker_num()
    fit = {1: ("reduce",), 4: ("reduce", "stage1", "stage3", "hybrid")}.get(num_workers, ("reduce", "stage1", "stage3"))
    return [(kind, mode) for kind, modes in CASES.items() for mode in modes if mode in fit]


def local(folder: Path) -> dict[str, Any]:
    """Workers that step alone get their own momentum and random numbers back."""
    run = Run("post_local", "sgd")
    torch.manual_seed(fleet.worker_index())
    run.train(range(SAVED_AT - 1))
    with run.checkpoint(folder / "local") as checkpoint:
        checkpoint.save(SAVED_AT)
    run.train(range(SAVED_AT, NUM_STEPS))
    drawn = torch.rand(()).item()
    again = Run("post_local", "sgd")
    assert again.checkpoint(folder / "local").load() == SAVED_AT
    again.train(range(SAVED_AT, NUM_STEPS))
    momenta = [
        [one.optimizer.inner.state[parameter]["momentum_buffer"].tolist() for parameter in one.model.parameters()]
        for one in (run, again)
    ]
    return {
        "values": [run.values(), again.values()],
        "momenta": momenta,
        "drawn": [drawn, torch.rand(()).item()],
    }


def faults(folder: Path) -> dict[str, str]:
    """What goes wrong on one worker is told by all."""
    worker = fleet.worker_index()
    told: dict[str, str] = {}
    run = Run("reduce", "sgd")
    run.train(range(1))

    def tell(name: str, step: int, checkpoint: Checkpoint) -> None:
        try:
            checkpoint.save(step)
            checkpoint.wait()
        except (FleetError, ZeroDivisionError) as error:
            told[name] = str(error)

    checkpoint = run.checkpoint(folder / "faults")
    tell("good", 1, checkpoint)
    tell("steps", 2 + worker, checkpoint)
    with on_worker_1("write_spans", lambda *_, **__: 1 / 0):
        tell("write", 2, checkpoint)
    with on_worker_1("APPEARS_S", 0.1), on_worker_1("Path", lambda path: Path(f"{path}-elsewhere")):
        tell("shared", 2, checkpoint)

    class Data:
        def state_dict(self) -> float:
            return 1 / (1 - worker)

        def load_state_dict(self, state: object) -> None: ...

    tell("capture", 2, run.checkpoint(folder / "faults", data=Data()))
    lonely = run.checkpoint(folder / "lonely", timeout_s=0.5)
    if worker == 0:
        tell("lonely", 1, lonely)
    tell("older", 0, checkpoint)
    for name, where, more in (
        ("folder", f"faults-{worker}", {}),
        ("parts", "faults", {"a": run.model} if worker else {}),
    ):
        try:
            run.checkpoint(folder / where, extras=more)
        except FleetError as error:
            told[name] = str(error)
    told["left"] = str(sorted(path.name for path in (folder / "faults").iterdir()))
    told["loaded"] = str(checkpoint.load())
    return told


def killed(folder: Path) -> dict[str, Any]:
    """Worker 1 is killed in the first attempt at the job; the second goes on from the last checkpoint."""
    torch.manual_seed(fleet.worker_index())
    model = fleet.distributed_model(nn.Linear(3, 2))
    with torch.no_grad():
        model.weight.copy_(torch.arange(6.0).view(2, 3))
        model.bias.zero_()
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.5))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.75)
    samples = torch.randint(-4, 5, (64, 3), generator=torch.Generator().manual_seed(1)).float()
    batches = fleet.data.shard(samples, 4 // fleet.worker_num(), shuffle=True)
    saved = folder / "killed"
    with fleet.Checkpoint(saved, model=model, optimizer=optimizer, scheduler=scheduler, data=batches) as checkpoint:
        begin = step = checkpoint.load()
        while step < 20:
            for x in batches:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
                step += 1
                if step % 3 == 0:
                    checkpoint.save(step)
                if step == 9 and fleet.worker_index() == 1 and os.environ["FLEET_RESTART"] == "0":
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == 20:
                    break
    return {"begin": begin, "values": [one.tolist() for one in model.state_dict().values()]}


def on_worker_1(name: str, value: object) -> AbstractContextManager[object]:
    """Another value of a name that the writing thread uses, on one of the workers."""
    return mock.patch(f"fleet.runtime.training.writer.{name}", value) if fleet.worker_index() else nullcontext()


PLANS: dict[str, list[Any]] = {
    "first": [save_all, local, faults],
    "next": [load_all, save_all],
    "last": [killed, load_all],
}


def main(plan: str, folder: Path) -> None:
    torch.set_num_threads(1)
    save_store.MAX_NOTE = 1000  # accounts travel in several pieces
    fleet.init(is_collective=True)
    report = {}
    for part in PLANS[plan]:
        found = part(folder)
        report[part.__name__] = dict(found)
    (folder / f"{plan}.{fleet.worker_index()}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
