"""Does reading files slow training down? The same model on the same samples, from files and from memory.

A case of benchmarks/data.py. One process with one thread for the model; CPU seconds count those of the threads that
read ahead too, so the ratio is that of the speeds on one core.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from harness import measure

import fleet
from fleet.data import Shard
from fleet_tools.synthetic import Clicks

BATCH = 1000
MOST_ROWS = 100_000


class Trainer:
    """CTR-DNN, 26 rows of 10 and 13 numbers through three layers of 400, with the tables in this process."""

    def __init__(self) -> None:
        self.net = fleet.models.DNN(13, 26, dim=10, hidden=(400, 400, 400), rule=fleet.rules.Adagrad(lr=0.05))
        self.model = fleet.distributed_model(self.net)
        self.optimizer = fleet.distributed_optimizer(torch.optim.Adam(self.model.parameters(), lr=1e-3))
        fleet.init_worker()

    def epoch(self, batches: Shard) -> int:
        """Train on all batches; how many samples those were."""
        count = 0
        for batch in fleet.prefetch(batches, self.model, keys=self.net.keys):
            loss = self.net.loss(self.model(batch), batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            count += batch.size
        return count


def training(folder: Path, rows: int, repeats: int) -> dict[str, Any]:
    """Epochs from text, from Parquet and from memory, in turn; `over_memory` is the share of memory's speed."""
    rows = min(rows, MOST_ROWS)
    clicks = Clicks(rows)
    paths = {"text": folder / "text", "parquet": folder / "parquet"}
    clicks.write(paths["text"], files=4, enabled=False)
    clicks.write(paths["parquet"], files=4, format="parquet", enabled=False)
    fleet.init()
    trainer = Trainer()
    sources = {name: fleet.data.files(path, clicks.schema, BATCH, shuffle=True) for name, path in paths.items()}
    memory = fleet.data.shard(fleet.data.load(paths["text"], clicks.schema), BATCH, shuffle=True)

    def run(batches: Shard) -> None:
        assert trainer.epoch(batches) == rows

    contestants = {"fleet": lambda: run(sources["text"]), "from Parquet": lambda: run(sources["parquet"])}
    contestants["from memory"] = lambda: run(memory)
    timings = measure(contestants, repeats=repeats, warmup=1, clock=time.process_time)
    fleet.stop_worker()
    fleet.shutdown()
    text, parquet, held = (timings[name].median_s for name in contestants)
    return {
        "case": "training from text files",
        "rows": rows,
        "rows_per_s": {who: rows / timing.median_s for who, timing in timings.items()},
        "times_faster_than": {"from Parquet": parquet / text, "from memory": held / text},
        "over_memory": {"text": held / text, "parquet": held / parquet},
        "timings": {who: timing.to_json() for who, timing in timings.items()},
    }
