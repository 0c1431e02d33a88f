"""A run beside servers in which workers die at chosen moments: PROGRAM STYLE OUT [WORKER:POINT:STEP ...].

STYLE says how the script counts: `steps` from `checkpoint.step`, `epochs` from 0 without asking, `ready` from
`checkpoint.step` as a number of epochs. A worker that comes to its POINT after STEP steps kills itself, once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fleet

NUM_EPOCHS, BATCH_SIZE = 4, 4


class Net(nn.Module):
    """Rows of ids and a layer, added up."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(2, rule=fleet.rules.Adagrad(lr=0.1))
        self.layer = nn.Linear(3, 1)
        nn.init.constant_(self.layer.weight, 0.5)
        nn.init.constant_(self.layer.bias, 0.25)

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> Any:
        return self.rows(ids).sum((1, 2)) + self.layer(x).squeeze(1)


def samples() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of which an epoch has six steps for two workers."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 30, (48, 2), generator=generator)
    x = torch.randint(-2, 3, (48, 3), generator=generator).float()
    return ids, x, torch.randint(-2, 3, (48,), generator=generator).float()


def tell(name: str, value: object) -> None:
    """Append a line to a file of this worker."""
    with Path(f"{name}-{fleet.worker_index()}").open("a") as file:
        print(json.dumps(value), file=file)


class Run:
    """One worker."""

    def __init__(self, style: str, deaths: list[str]) -> None:
        self.style = style
        self.deaths = deaths
        self.data = fleet.data.shard(samples(), batch_size=BATCH_SIZE, shuffle=True)
        self.others = fleet.data.shard(samples(), batch_size=BATCH_SIZE, uneven="join")
        self.model = fleet.distributed_model(Net())
        self.optimizer = fleet.distributed_optimizer(torch.optim.Adagrad(self.model.parameters(), lr=0.1))
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.9)
        fleet.init_worker()
        self.checkpoint = fleet.Checkpoint(
            "checkpoints",
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            data=self.data,
            resume=True,
        )
        self.made = fleet.steps_done()

    def die(self, point: str) -> None:
        """End here if this worker is to."""
        mark = f"{fleet.worker_index()}:{point}:{self.made}"
        if mark in self.deaths and not Path(f"died-{mark}").exists():
            Path(f"died-{mark}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def epoch(self) -> None:
        """What is left of an epoch, a measurement, and a copy of the model."""
        for ids, x, y in self.data:
            self.die("handed")
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(ids, x), y, reduction="sum").backward()
            self.optimizer.step()
            self.made += 1
            self.die("stepped")
            self.scheduler.step()
            tell("lrs", [self.made, self.scheduler.get_last_lr()[0]])
            if self.style != "ready" and self.made % 5 == 0:
                self.checkpoint.save(self.made)
                self.die("saved")
        self.die("read")
        fleet.barrier_worker()
        metrics = fleet.evaluate(self.model, self.others, {"loss": _squared})
        tell("losses", metrics["loss"])
        self.die("measured")
        fleet.save_persistables("models")
        if self.style == "ready":
            self.checkpoint.save(self.data.epoch)
            self.die("saved")

    def train(self) -> None:
        """All epochs."""
        if self.style == "epochs":
            for _ in range(NUM_EPOCHS):
                self.epoch()
        elif self.style == "ready":
            for _ in range(self.checkpoint.step, NUM_EPOCHS):
                self.epoch()
        else:
            step = self.checkpoint.step
            assert step == self.made, (step, self.made)
            while self.made < NUM_EPOCHS * 6:
                self.epoch()


def _squared(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return ((outputs - targets) ** 2).mean()


def _sync() -> fleet.DistributedStrategy:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    return strategy


def main(style: str, out: str, *deaths: str) -> None:
    """Train, and write what has come of it."""
    fleet.init(strategy=_sync())
    if fleet.is_server():
        fleet.run_server()
        return
    run = Run(style, list(deaths))
    run.train()
    run.checkpoint.close()
    assert run.made == NUM_EPOCHS * 6
    fleet.barrier_worker()
    if fleet.is_first_worker():
        torch.save(fleet.gather_state_dict(run.model), out)
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
