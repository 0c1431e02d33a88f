"""A run over files that is saved in the middle of an epoch: PROGRAM KIND FOLDER OUT [HOW ...], as fleetrun starts it.

KIND: `served` (asynchronous, beside servers) or `collective`. Every batch is noted in OUT with its step and its rows.
HOW: `stop`: save after SAVE_AT steps, make a few more, and wait to be killed. `queue`, `ahead`: as files are read.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fleet

NUM_ROWS, NUM_EPOCHS, BATCH_SIZE, SAVE_AT, STOP_AT = 600, 2, 9, 11, 14
SCHEMA = fleet.data.Schema(categories=[fleet.data.Category("id", hash=False)], columns=["id", "rest"])


def write(folder: Path) -> None:
    """Rows of half a page each, in files of different sizes: many pieces."""
    folder.mkdir()
    bounds = [0, 50, 51, 300, NUM_ROWS]
    for part in range(4):
        rows = range(bounds[part], bounds[part + 1])
        (folder / f"part-{part}.tsv").write_text("".join(f"{row}\t{'x' * 200}\n" for row in rows))


class Counts(nn.Module):
    """A row of a table for each sample: its value counts how often it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        constant = fleet.initializers.Constant(0.0)
        self.rows = fleet.nn.Embedding(1, rule=fleet.rules.SGD(lr=1.0), initializer=constant)

    def forward(self, ids: torch.Tensor) -> Any:
        return -self.rows(ids).sum()


class Mean(nn.Module):
    """Something to train without servers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.layer(ids.float() / NUM_ROWS).mean()


def main(kind: str, folder: str, out: str, *how: str) -> None:
    """Train."""
    is_served = kind == "served"
    strategy = fleet.DistributedStrategy()
    if is_served:
        strategy.a_sync = True
    fleet.init(is_collective=not is_served, strategy=strategy)
    if fleet.is_server():
        sys.exit(fleet.run_server())
    model: Any = fleet.distributed_model(Counts() if is_served else Mean())
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0 if is_served else 0.01))
    batches = fleet.data.files(folder, SCHEMA, BATCH_SIZE, shuffle=True, queue="queue" in how)
    if is_served:
        fleet.init_worker()
    checkpoint = fleet.Checkpoint("saved", model=model, optimizer=optimizer, data=batches, resume=True, timeout_s=60)
    step = checkpoint.step
    with Path(out, f"{fleet.worker_index()}.json").open("w") as notes:
        for _ in range(batches.epoch, NUM_EPOCHS):
            loop = fleet.prefetch(batches, model, keys=lambda one: one.ids) if "ahead" in how else batches
            for batch in loop:
                optimizer.zero_grad()
                model(batch.ids).backward()
                optimizer.step()
                step += 1
                print(json.dumps([step, batch.ids.flatten().tolist()]), file=notes, flush=True)
                if "stop" in how and step == SAVE_AT:
                    checkpoint.save(step)
                    checkpoint.wait()
                if "stop" in how and step == STOP_AT:
                    Path(f"ready.{fleet.worker_index()}").write_text(f"{os.getpid()}\n")
                    time.sleep(120)  # until this process is killed
    checkpoint.save(10**6)  # every worker's pushes have arrived when it is written
    checkpoint.close()
    if is_served:
        if fleet.is_first_worker():
            counted = model.rows(torch.arange(NUM_ROWS)).flatten().tolist()
            Path(out, "counts.json").write_text(json.dumps(counted))
        fleet.barrier_worker()
        fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
