"""A run beside servers that is saved and resumed, as a script that fleetrun starts: PROGRAM FOLDER OUT [KILL | SLOW].

The loss is linear in small whole numbers, so that gradients are exact in float32 however the samples are divided: every
number of workers and servers must come to the same bits. An epoch has five steps, and every third is saved.

KILL: worker 1 dies in step 8. SLOW: servers take for ever to write step 6, and say so by a file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fleet
from fleet.ps.durable import storage

NUM_STEPS, STEP_SIZE = 12, 8


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
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 30, (40, 2), generator=generator)
    x = torch.randint(-2, 3, (40, 3), generator=generator).float()
    return ids, x, torch.randint(-2, 3, (40,), generator=generator).float()


def be_slow() -> None:
    """Let the server hang in the writing of step 6."""
    write = storage.write

    def slowly(contents: storage.ServerContents, path: Path, moved: Callable[[], None] = lambda: None) -> str:
        if "step-00000006" in path.name:
            Path(f"writing.{fleet.server_index()}").write_text(f"{os.getpid()}\n")
            threading.Event().wait()
        return write(contents, path, moved)

    storage.write = slowly


def main(folder: Path, out: Path, how: str = "") -> None:
    fleet.init()
    if fleet.is_server():
        if how == "SLOW":
            be_slow()
        sys.exit(fleet.run_server())
    torch.manual_seed(fleet.worker_index())
    worker = fleet.worker_index()
    Path(f"worker.{worker}").write_text(f"{os.getpid()}\n")
    model = fleet.distributed_model(Net())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.25))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.75)
    batches = fleet.data.shard(samples(), STEP_SIZE // fleet.worker_num(), shuffle=True)
    fleet.init_worker()
    checkpoint = fleet.Checkpoint(
        folder, model=model, optimizer=optimizer, scheduler=scheduler, data=batches, resume=True, timeout_s=60
    )
    drawn: list[float] = []
    begin = step = checkpoint.step
    while step < NUM_STEPS:
        for ids, x, target in fleet.prefetch(batches, model, keys=lambda one: one[0]):
            (model(ids, x) * target).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            drawn.append(torch.rand(()).item())
            step += 1
            if step % 3 == 0:
                checkpoint.save(step)
            if how == "KILL" and step == 8:
                checkpoint.wait()
                if worker == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
            if step == NUM_STEPS:
                break
    fleet.save_inference_model(out / "model")
    (out / f"{worker}.json").write_text(json.dumps({"begin": begin, "drawn": drawn, "lr": scheduler.get_last_lr()}))
    fleet.stop_worker()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
