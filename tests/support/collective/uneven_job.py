"""A synchronous job with servers whose workers have different numbers of batches: `uneven_job.py HOW...`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fleet

NUM_KEYS = 8
LENGTHS = ((5, 2, 0), (0, 3, 4))
"""How many batches each worker has in each of two epochs."""
Batch = tuple[torch.Tensor, torch.Tensor]
SCHEMA = fleet.data.Schema(
    label="label",
    categories=[fleet.data.Category("a", hash=False), fleet.data.Category("b", hash=False)],
    columns=["label", "a", "b"],
)


class Net(nn.Module):
    """A row for each of two ids, and a layer."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__()
        self.rows = rows
        self.layer = nn.Linear(2, 1)
        nn.init.constant_(self.layer.weight, 0.5)
        nn.init.constant_(self.layer.bias, 0.25)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.layer(self.rows(ids).sum(1)).squeeze(1)


def batch_of(worker: int, epoch: int, number: int) -> Batch:
    """One batch, the same wherever it is made."""
    generator = torch.Generator().manual_seed(100 * worker + 10 * epoch + number)
    return torch.randint(0, NUM_KEYS, (4, 2), generator=generator), torch.randn(4, generator=generator)


def seven_samples() -> Batch:
    """Two for each of three workers, and one."""
    samples = [batch_of(0, 0, 0), batch_of(1, 1, 1)]
    return torch.cat([ids for ids, _ in samples])[:7], torch.cat([targets for _, targets in samples])[:7]


def three_pairs() -> Batch:
    """What the file has."""
    return torch.tensor([[1, 2], [3, 4], [1, 5]]), torch.tensor([1.0, 0.0, 1.0])


def write_file(folder: Path) -> None:
    """The file that is read."""
    ids, targets = three_pairs()
    lines = [f"{target:g}\t{a}\t{b}\n" for (a, b), target in zip(ids.tolist(), targets.tolist(), strict=True)]
    (folder / "pairs.tsv").write_text("".join(lines))


class Own:
    """The batches of a worker, for `fleet.data.shard`."""

    def __init__(self, worker: int) -> None:
        self._worker, self._epoch = worker, 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        for number in range(LENGTHS[self._epoch % 2][self._worker]):
            yield batch_of(self._worker, self._epoch % 2, number)


class OwnCount:
    """The steps that a script counts by itself."""

    def __init__(self) -> None:
        self.num = 0

    def state_dict(self) -> dict[str, int]:
        return {"num": self.num}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.num = state["num"]


def folders(name: str) -> list[str]:
    """What was saved there."""
    return [folder.name for folder in sorted(Path(name).iterdir()) if folder.is_dir()]


def train(how: set[str]) -> dict[str, Any]:
    """Two epochs with a meeting after each; what this worker has seen."""
    rows = fleet.nn.Embedding(2, rule=fleet.rules.Adagrad(lr=0.1), initializer=fleet.initializers.Constant(0.1))
    model = fleet.distributed_model(Net(rows))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.05))
    fleet.init_worker()
    worker = fleet.worker_index()
    data = fleet.data.shard(Own(worker), uneven="join")
    report: dict[str, Any] = {"layers": [], "losses": [], "steps": []}
    own = OwnCount()
    counted = fleet.Checkpoint("counted", model=model, optimizer=optimizer, extras={"own": own})

    def step(ids: torch.Tensor, targets: torch.Tensor) -> None:
        nn.functional.mse_loss(model(ids), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    for epoch in range(2):
        batches = fleet.prefetch(data, model, lambda batch: batch[0]) if "ahead" in how else data
        for number, (ids, targets) in enumerate(batches):
            step(ids, targets)
            own.num += 1
            if f"inside{worker}" in how and number == 1:  # the others are about to wait for its gradients
                os.kill(os.getpid(), signal.SIGKILL)
            if "slow" in how and number == 2 and epoch == 0:  # worker 0, while the others pass
                Path("tail").write_text("\n")
                while not Path("go-on").exists():
                    time.sleep(0.01)
        if f"dies{worker}" in how and epoch == 0 and not Path(f"died{worker}").exists():  # all know that it is over
            Path(f"died{worker}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        metrics = fleet.evaluate(model, [batch_of(worker, epoch, 9)], {"loss": nn.functional.mse_loss})
        report["losses"].append(metrics["loss"])
        report["layers"].append([one.flatten().tolist() for one in model.layer.parameters()])
        report["steps"].append(fleet.steps_done())
        counted.save(own.num)
    counted.close()
    report |= {"own": own.num, "counted": folders("counted")}

    # Nothing is trained: nobody waits, also where everybody knows that one has nothing.
    read = [batch_of(worker, 0, 0)] * (1 + worker)
    report["read"] = sum(len(ids) for ids, _ in fleet.data.shard(lambda: read, uneven="join"))
    report["few"] = sum(len(ids) for (ids,) in fleet.data.shard((torch.arange(2),), 4, uneven="join"))
    fleet.barrier_worker()
    sizes = []
    checkpoint = fleet.Checkpoint("checkpoints", model=model, optimizer=optimizer)
    for ids, targets in fleet.data.shard(seven_samples(), 2, uneven="join"):  # worker 0 alone has a last batch
        step(ids, targets)
        sizes.append(len(ids))
        checkpoint.save(len(sizes))
    checkpoint.save(3)
    checkpoint.wait()
    report["saved"] = folders("checkpoints")
    fleet.barrier_worker()
    report["sizes"] = sizes
    # Files as they are by default: one piece, so that two workers have nothing to train on, and nothing to read.
    files = fleet.data.files("pairs.tsv", SCHEMA, 2)
    report["trained"] = []
    for batch in files:
        step(batch.ids, batch.label.reshape(-1))
        report["trained"].append(len(batch.ids))
    fleet.barrier_worker()
    report["unread"] = sum(len(batch.ids) for batch in files)
    fleet.barrier_worker()
    model.eval()
    with torch.no_grad():
        report["rows"] = rows(torch.arange(NUM_KEYS)).tolist()
    report["layers"].append([one.flatten().tolist() for one in model.layer.parameters()])
    report["version"] = [server["version"] for server in fleet.server_stats()]
    fleet.stop_worker()
    return report


if __name__ == "__main__":
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    fleet.init(strategy=strategy)
    who = f"server{fleet.server_index()}" if fleet.is_server() else f"worker{fleet.worker_index()}"
    Path(f"{who}.pid").write_text(f"{os.getpid()}\n")
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        told = train(set(sys.argv[1:]))
        Path(f"{fleet.worker_index()}.json").write_text(json.dumps(told))
