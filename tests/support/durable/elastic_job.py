"""A job whose workers come and go: PROGRAM MODE, as fleetrun starts it in a folder with `data`.

A table counts how often each sample was trained on. Each worker appends a byte to `steps.INDEX.LIFE.PID` at each step,
and makes few until there is a file `fast`. While there is a file `early`, a process does nothing.
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
from support.data.files_job import NUM_ROWS, SCHEMA

NUM_EPOCHS, BATCH_SIZE = 2, 4


class Counts(nn.Module):
    """A row of a table for each sample, whose value counts how often it was trained on, beside a layer.

    In sync mode a step applies the mean over the workers that took part: there a rule that applies the sign counts.
    """

    def __init__(self, mode: str) -> None:
        super().__init__()
        rule = fleet.rules.SGD(lr=1.0) if mode != "sync" else fleet.rules.Adam(lr=1.0, betas=(0.0, 0.0), eps=1e-12)
        self.rows = fleet.nn.Embedding(1, rule=rule, initializer=fleet.initializers.Constant(0.0))
        self.layer = nn.Linear(1, 1)

    def forward(self, ids: torch.Tensor) -> Any:
        return -self.rows(ids).sum() + 1e-4 * self.layer(ids.float() / NUM_ROWS).sum()


def main(mode: str) -> None:
    """Train."""
    Path(f"begun.{os.environ.get('PADDLE_TRAINER_ID')}.{os.getpid()}").touch()
    while os.path.exists("early"):
        time.sleep(0.02)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode == "geo":
        strategy.a_sync_configs.k_steps = 3
    if mode == "half":
        strategy.a_sync_configs.half_async = True
    fleet.init(strategy=strategy)
    if fleet.is_server():
        Path(f"server.{os.getpid()}").touch()
        sys.exit(fleet.run_server())
    model: Any = fleet.distributed_model(Counts(mode))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    batches = fleet.data.files("data", SCHEMA, BATCH_SIZE, shuffle=True, queue=True)
    fleet.init_worker()
    life = os.environ.get("FLEET_LIFE", "0")
    with Path(f"steps.{fleet.worker_index()}.{life}.{os.getpid()}").open("w") as notes:
        for _ in range(NUM_EPOCHS):
            for batch in batches:
                optimizer.zero_grad()
                model(batch.ids).backward()
                optimizer.step()
                notes.write(".")
                notes.flush()
                if notes.tell() > 3 and not os.path.exists("fast"):
                    time.sleep(0.4)
    if fleet.is_first_worker():
        found = fleet.gather_state_dict(model)
        counted = [0.0] * NUM_ROWS
        for key, count in zip(found["rows.keys"].tolist(), found["rows.weight"].flatten().tolist(), strict=True):
            counted[key] = round(count, 3)
        fleet.save_persistables("saved")
        Path("counts.part").write_text(json.dumps(counted) + "\n")
        Path("counts.part").rename("counts.json")
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
