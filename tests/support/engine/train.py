"""A small synchronous job: `train.py STEPS`. Says how far it is in a file, and at the end what it has come to."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fleet
from fleet.api import fleet as current

STEPS = int(sys.argv[1])


class Net(nn.Module):
    """Rows and one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(4, rule=fleet.rules.Adagrad(lr=0.1))
        self.layer = nn.Linear(8, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(self.rows(ids).flatten(1))
        return scores.squeeze(1)


def data_planes() -> list[bool]:
    """Whether there is a data plane to each server."""
    ways: Any = current.worker_client("the test").transports
    clients = [getattr(one, "_present", one)._client for one in ways]
    return [one is not None and one.is_open for one in clients]


fleet.init()
if fleet.is_server():  # under fleetrun
    sys.exit(fleet.run_server())
index = fleet.worker_index()
torch.manual_seed(0)
model = fleet.distributed_model(Net())
optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-2))
fleet.init_worker()
ids = torch.randint(100, (STEPS * 8, 2), generator=torch.Generator().manual_seed(1))
losses = []
for (batch,) in fleet.data.shard((ids,), batch_size=4):
    loss = (model(batch) - 1.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    Path(f"steps-{index}").write_text(str(fleet.steps_done()))
way = os.environ.get("FLEET_LOCAL_TRANSPORT", "")
deadline = time.monotonic() + 5.0
while way != "GRPC" and not all(data_planes()) and time.monotonic() < deadline:
    with torch.no_grad():
        model(ids)
print(f"{fleet.steps_done()} steps, {losses[-1]!r}, {fleet.util.all_reduce(losses[-1])!r}, data planes {data_planes()}")
fleet.stop_worker()
