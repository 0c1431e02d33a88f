"""A job whose workers come and go: PROGRAM MODE, as fleetrun starts it in a folder with `data`.

Two tables, with an optimizer each, count how often each sample was trained on. Each worker appends a byte to
`steps.INDEX.LIFE.PID` at each step, and makes few until there is a file `fast`. While there is a file `early`, a
process does nothing. Where there is a folder `saves`, it has a checkpoint of every third step of worker 0.
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
    """A row of two tables for each sample, whose values count how often it was trained on, beside two layers.

    In sync mode a step applies the mean over the workers that took part: there a rule that applies the sign counts.
    """

    def __init__(self, mode: str) -> None:
        super().__init__()

        def table(width: int, lr: float) -> Any:
            signs = fleet.rules.Adam(lr=lr, betas=(0.0, 0.0), eps=1e-12)
            rule = fleet.rules.SGD(lr=lr) if mode != "sync" else signs
            return fleet.nn.Embedding(width, rule=rule, initializer=fleet.initializers.Constant(0.0))

        self.rows, self.twice = table(1, 1.0), table(2, 2.0)
        self.layer, self.other = nn.Linear(1, 1), nn.Linear(1, 1)

    def forward(self, ids: torch.Tensor) -> Any:
        given = ids.float() / NUM_ROWS
        return 1e-4 * (self.layer(given) + self.other(given)).sum() - self.rows(ids).sum() - self.twice(ids).sum()

    def optimizers(self) -> list[Any]:
        """One for each table and its layer."""
        first = torch.optim.SGD([*self.rows.parameters(), *self.layer.parameters()], lr=1.0)
        second = torch.optim.Adam([*self.twice.parameters(), *self.other.parameters()], lr=0.01)
        return [fleet.distributed_optimizer(one) for one in (first, second)]


def counts_of(model: Counts, *, are_equal: bool = True) -> list[float]:
    """How often each sample was trained on, by the rows of both tables, which must agree unless somebody trains."""
    found, counted = fleet.gather_state_dict(model), [[0.0] * NUM_ROWS for _ in range(3)]
    for key, count in zip(found["rows.keys"].tolist(), found["rows.weight"].flatten().tolist(), strict=True):
        counted[0][key] = round(count, 3)
    for key, counts in zip(found["twice.keys"].tolist(), found["twice.weight"].tolist(), strict=True):
        counted[1][key], counted[2][key] = (round(count / 2, 3) for count in counts)
    assert counted[1] == counted[2], "half a row"
    assert counted[0] == counted[1] or not are_equal, "tables have seen different batches"
    return counted[0]


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
    optimizers = model.optimizers()
    batches = fleet.data.files("data", SCHEMA, BATCH_SIZE, shuffle=True, queue=True)
    fleet.init_worker()
    saves = fleet.Checkpoint("saves", model=model, optimizer=optimizers, keep=100) if os.path.exists("saves") else None
    life = os.environ.get("FLEET_LIFE", "0")
    with Path(f"steps.{fleet.worker_index()}.{life}.{os.getpid()}").open("w") as notes:
        for _ in range(NUM_EPOCHS):
            for batch in batches:
                for optimizer in optimizers:
                    optimizer.zero_grad()
                model(batch.ids).backward()
                for optimizer in optimizers:
                    optimizer.step()
                if saves is not None and fleet.steps_done() % 3 == 0:
                    saves.save(fleet.steps_done())
                notes.write(".")
                notes.flush()
                if notes.tell() > 3 and not os.path.exists("fast"):
                    time.sleep(0.4)
    if fleet.is_first_worker():
        counted = counts_of(model)
        fleet.save_persistables("saved")
        Path("counts.part").write_text(json.dumps(counted) + "\n")
        Path("counts.part").rename("counts.json")
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
