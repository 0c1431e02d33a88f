"""A job whose machines burn: burning_job.py MODE STEPS [PAUSE_MS]; its last lines say what the model has become.

In sync mode `model` is a digest of it, which must not depend on what has burned. In the others each sample adds one to
its rows, so that `counted` tells whether every push was applied once.
"""

from __future__ import annotations

import hashlib
import sys
import time

import torch
from torch import nn

import fleet

NUM_IDS, BATCH = 500, 16


class Model(nn.Module):
    """Two tables with different rules, and layers."""

    def __init__(self) -> None:
        super().__init__()
        self.ads = fleet.nn.Embedding(4, "ads", rule=fleet.rules.Adagrad(0.1))
        self.users = fleet.nn.Embedding(3, "users", rule=fleet.rules.Adam(0.01))
        self.layers = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(torch.cat([self.ads(ids), self.users(ids * 7 % NUM_IDS)], dim=1))
        return found


class Counts(nn.Module):
    """How often each id came."""

    def __init__(self) -> None:
        super().__init__()
        zeros = fleet.initializers.Constant(0.0)
        self.times = fleet.nn.Embedding(1, "times", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.times(ids)
        return found


def main(mode: str, num_steps: int, pause_s: float) -> None:
    """Train, then say what came of it."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode == "sync":
        strategy.clip_norm = 1.0
    fleet.init(strategy=strategy)
    if fleet.is_server():
        sys.exit(fleet.run_server())
    torch.manual_seed(0)
    model = fleet.distributed_model(Model() if mode == "sync" else Counts())
    parameters = list(model.parameters())
    optimizer = fleet.distributed_optimizer(
        torch.optim.Adam(parameters) if mode == "sync" else torch.optim.SGD(parameters, 1.0)
    )
    fleet.init_worker()
    for step in fleet.steps(num_steps):
        ids = (torch.arange(BATCH) * 13 + 29 * step + 101 * fleet.worker_index()) % NUM_IDS
        optimizer.zero_grad()
        found = model(ids)
        loss = (found - ids.unsqueeze(1) / NUM_IDS).square().mean() if mode == "sync" else -found.sum()
        loss.backward()
        optimizer.step()
        print("step", step, time.time(), flush=True)
        time.sleep(pause_s)
    fleet.flush()
    fleet.barrier_worker()
    model.eval()
    with torch.no_grad():
        values = model(torch.arange(NUM_IDS))
    digest, counted = hashlib.sha256(values.numpy().tobytes()).hexdigest(), int(values.sum())
    of = num_steps * BATCH * fleet.worker_num()
    print(f"model {digest}\ncounted {counted} of {of}", flush=True)  # in one piece, whoever else writes to the log
    fleet.barrier_worker()
    fleet.stop_worker()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000 if len(sys.argv) > 3 else 0.0)
