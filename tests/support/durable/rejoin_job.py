"""A worker of a durable job whose rows count its samples: `rejoin_job.py MODE KIND HOW...`.

It may be killed and started again at any moment; the file `lives` gets a line for each of its lives.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import fleet

NUM_SAMPLES, BATCH_SIZE, NUM_EPOCHS = 48, 2, 3
FIRST_KEY = 1000


def strategy(mode: str, how: set[str]) -> fleet.DistributedStrategy:
    """A mode, with merged pushes if they are asked for."""
    made = fleet.DistributedStrategy()
    made.a_sync = mode != "sync"
    made.a_sync_configs.half_async = mode == "half"
    if mode == "geo":
        made.a_sync_configs.k_steps = 3
    if "absent" in how:
        made.wait_for_workers_s = 4.0
    if "merged" in how:
        made.a_sync_configs.max_merge_var_num = 3
    return made


def data_of(kind: str) -> Any:
    """What is trained on: sample `i` is the key FIRST_KEY + i."""
    keys = torch.arange(FIRST_KEY, FIRST_KEY + NUM_SAMPLES)
    if kind == "samples":
        return fleet.data.shard(keys, batch_size=BATCH_SIZE, shuffle=True, uneven="join")
    if kind in ("files", "queued"):
        schema = fleet.data.Schema(categories=[fleet.data.Category("key", hash=False)], columns=["key", "rest"])
        return fleet.data.files("keys.tsv", schema, BATCH_SIZE, shuffle=True, queue=kind == "queued")
    if kind == "loader":
        samples: Any = keys.tolist()
        loader: Any = torch.utils.data.DataLoader(samples, batch_size=BATCH_SIZE, shuffle=True)
        return fleet.data.shard(loader, uneven="join")

    def read() -> Iterator[torch.Tensor]:
        own = keys[fleet.worker_index() :: fleet.worker_num()]
        yield from own.split(BATCH_SIZE)

    return fleet.data.shard(read, uneven="pad" if kind == "padded" else "join")


def write_files(folder: Path) -> None:
    """The file that is read as files: a page for each sample, so that it has several pieces."""
    keys = range(FIRST_KEY, FIRST_KEY + NUM_SAMPLES)
    (folder / "keys.tsv").write_text("".join(f"{key}\t{'x' * 500}\n" for key in keys))


def ids_of(batch: Any) -> torch.Tensor:
    """What the model looks up."""
    ids: torch.Tensor = batch.ids if isinstance(batch, fleet.data.Batch) else batch
    return ids


def train(mode: str, kind: str, how: set[str]) -> None:
    """Train: each occurrence of a key adds one to its row."""
    fleet.init(strategy=strategy(mode, how))
    model = fleet.distributed_model(
        fleet.nn.Embedding(1, rule=fleet.rules.SGD(lr=1.0), initializer=fleet.initializers.Constant(0.0))
    )
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    with Path(f"lives-{fleet.worker_index()}").open("a") as file:
        print(fleet.steps_done(), file=file)
    if fleet.steps_done():
        Path("back").touch()
    data = data_of(kind)
    for epoch in range(NUM_EPOCHS):
        if "anew" in how and epoch:
            data = data_of(kind)
        batches = fleet.prefetch(data, model, keys=ids_of) if "ahead" in how else data
        for batch in batches:
            optimizer.zero_grad()
            (-model(ids_of(batch)).sum()).backward()
            if "absent" in how and fleet.worker_index() == 1 and fleet.steps_done() == 5 and not Path("dead").exists():
                Path("dead").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
            time.sleep(0.004)
            while "absent" in how and fleet.steps_done() > 15 and not Path("back").exists():
                time.sleep(0.01)
        if "meets" in how:
            counted = fleet.util.all_reduce(1)
            assert counted == fleet.worker_num(), counted
            with Path(f"epochs-{fleet.worker_index()}").open("a") as file:
                print(epoch, file=file)
    assert data.epoch == (1 if "anew" in how else NUM_EPOCHS)
    fleet.stop_worker()


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], set(sys.argv[3:]))
