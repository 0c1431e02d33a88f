"""A job with a checkpoint that is told to save and stop: `saves.py KIND`, `collective`, `sync` or `async`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn

import fleet

KIND = sys.argv[1]
strategy = fleet.DistributedStrategy()
if KIND != "collective":
    strategy.a_sync = KIND == "async"
fleet.init(is_collective=KIND == "collective", strategy=strategy)
if fleet.is_server():
    sys.exit(fleet.run_server())
torch.manual_seed(0)
model = fleet.distributed_model(nn.Linear(4, 1))
optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-2))
if KIND != "collective":
    fleet.init_worker()
rows = torch.randn(20_000, 4, generator=torch.Generator().manual_seed(1))
data = fleet.data.shard((rows,), batch_size=2)
with fleet.Checkpoint("runs", model=model, optimizer=optimizer, data=data, resume=True) as saved:
    print("begins at", saved.step, flush=True)
    for (batch,) in data:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        Path(f"steps-{fleet.worker_index()}").write_text(str(fleet.steps_done()))
        if saved.step:
            break
        time.sleep(0.002)
fleet.stop_worker()
