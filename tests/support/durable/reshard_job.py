"""A durable job that changes its number of servers: `reshard_job.py MODE NUM_STEPS [STEP:SERVERS ...]`.

Worker 0 asks for SERVERS servers after STEP steps, and all go on. With rules and numbers that make sums exact, every
mode ends with the same rows; in sync mode everything is the same to the last bit whatever the rules are.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fleet


class Net(nn.Module):
    """Two tables, layers that are cut into blocks, a buffer."""

    def __init__(self, is_exact: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        rule = fleet.rules.SGD(lr=1.0) if is_exact else fleet.rules.Adagrad(lr=0.1)
        initializer = fleet.initializers.Constant(0.0) if is_exact else fleet.initializers.Normal(std=0.1)
        self.rows = fleet.nn.Embedding(4, rule=rule, initializer=initializer)
        self.rare = fleet.nn.Embedding(2, rule=fleet.rules.SGD(lr=1.0), entry=fleet.entries.CountFilterEntry(3))
        self.wide = nn.Linear(64, 300)
        self.last = nn.Linear(300, 1)
        self.register_buffer("seen", torch.arange(5.0))

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        deep: torch.Tensor = self.last(torch.tanh(self.wide(x))).squeeze(1)
        scores: torch.Tensor = deep + self.rows(ids).sum((1, 2)) + self.rare(ids % 50).sum((1, 2))
        return scores


def strategy(mode: str) -> fleet.DistributedStrategy:
    """Of a mode; "clipped" is sync with a limit for the norm of gradients."""
    made = fleet.DistributedStrategy()
    made.a_sync = mode not in ("sync", "clipped")
    if mode == "clipped":
        made.clip_norm = 0.05
    if mode == "geo":
        made.a_sync_configs.k_steps = 3
    return made


def tell(name: str, text: object) -> None:
    """Append a line to a file."""
    with Path(name).open("a") as file:
        print(text, file=file)


def note_pid(name: str) -> None:
    """Let the test know which process this is."""
    Path(f"{name}.part").write_text(f"{os.getpid()}\n")
    Path(f"{name}.part").replace(f"{name}.pid")


def batch(step: int, worker: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for the same step of the same worker."""
    generator = torch.Generator().manual_seed(1000 * worker + step)
    return torch.randint(0, 2000, (16, 3), generator=generator), torch.randn(16, 64, generator=generator)


def counting(num_steps: int, changes: dict[int, int]) -> None:
    """Each row counts how often it was pushed; nothing else is trained. Slow before the file `go`, if `--paced`."""
    model = fleet.distributed_model(
        fleet.nn.Embedding(1, rule=fleet.rules.SGD(lr=1.0), initializer=fleet.initializers.Constant(0.0))
    )
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    data: Any = fleet.data.shard(torch.arange(4 * num_steps * fleet.worker_num()), batch_size=4, uneven="join")
    for ids in fleet.prefetch(data, model):
        optimizer.zero_grad()
        (-model(ids).sum()).backward()
        optimizer.step()
        follow(fleet.steps_done(), changes)


def training(num_steps: int, changes: dict[int, int]) -> None:
    """A model with everything."""
    model = fleet.distributed_model(Net(is_exact=False))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    fleet.init_worker()
    data: Any = fleet.data.shard(torch.arange(num_steps * fleet.worker_num()), batch_size=1, uneven="join")
    for step in data:
        optimizer.zero_grad()
        ids, x = batch(int(step), fleet.worker_index())
        nn.functional.mse_loss(model(ids, x), ids[:, 0].float() / 1000).backward()
        optimizer.step()
        follow(fleet.steps_done(), changes)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        torch.save(fleet.gather_state_dict(model), "state.pt")


def follow(step: int, changes: dict[int, int]) -> None:
    """Ask for what comes after this step, and see to it that it comes in the middle of the run."""
    if step in changes:
        fleet.reshard(servers=changes[step])
    if "--paced" in sys.argv:
        if step > 60 and not Path("go").exists():
            time.sleep(0.25)
    elif step - 20 in changes:
        deadline = time.monotonic() + 60
        while len(fleet.server_stats()) != changes[step - 20] and time.monotonic() < deadline:
            time.sleep(0.02)


def main(mode: str, num_steps: str, *changes: str) -> None:
    """Train, save, leave."""
    fleet.init(strategy=strategy(mode))
    if fleet.is_server():
        note_pid(f"server-{os.environ.get('FLEET_LAYOUT', 0)}-{fleet.server_index()}")
        fleet.run_server()
        return
    note_pid(f"worker-{fleet.worker_index()}")
    wanted = {
        int(at): int(servers) for at, _, servers in (change.partition(":") for change in changes if ":" in change)
    }
    (training if mode in ("sync", "clipped") else counting)(int(num_steps), wanted)
    fleet.flush()
    fleet.barrier_worker()
    if fleet.is_first_worker():
        fleet.save_persistables("saved")
        tell("stats", fleet.server_stats())
    fleet.barrier_worker()
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
