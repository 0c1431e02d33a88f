"""Two scripts of a first day, right as they stand, and what a mistake in them is: tables of those lie beside this."""

from __future__ import annotations

from dataclasses import dataclass

BESIDE_SERVERS = """\
import sys

import torch
from torch import nn

import fleet


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = fleet.nn.Embedding(8)
        self.layers = nn.Linear(8, 1)

    def forward(self, ids):
        return self.layers(self.rows(ids).mean(dim=1))


fleet.init()
if fleet.is_server():
    sys.exit(fleet.run_server())
model = fleet.distributed_model(Clicks())
optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
fleet.init_worker()
for step in range(4):
    ids = torch.randint(1000, (16, 3))
    loss = model(ids).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
fleet.stop_worker()
"""

# Lines of it.
INIT = "fleet.init()\n"
SERVE = "if fleet.is_server():\n    sys.exit(fleet.run_server())\n"
MODEL = "model = fleet.distributed_model(Clicks())\n"
OPTIMIZER = "optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))\n"
INIT_WORKER = "fleet.init_worker()\n"
BATCH = "    ids = "
STEP = "    optimizer.step()\n"
STOP_WORKER = "fleet.stop_worker()\n"

# Expressions in it.
EMBEDDING = "fleet.nn.Embedding(8)"
ADAM = "torch.optim.Adam(model.parameters(), lr=0.01)"
IDS = "torch.randint(1000, (16, 3))"

COLLECTIVE = """\
import torch
from torch import nn

import fleet


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


fleet.init(is_collective=True)
model = fleet.distributed_model(Tower())
optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

# How they are started.
SERVERS = ("--server_num", "1", "--worker_num", "2")
WORKERS = ("--nproc_per_node", "2", "--device", "cpu")


@dataclass(frozen=True)
class Mistake:
    """Changes to a script that is right, how it is started, and what must be said about it."""

    says: str
    """A pattern that one line of the output matches: the cause and the remedy."""
    changes: tuple[tuple[str, str], ...] = ()
    script: str = BESIDE_SERVERS
    options: tuple[str, ...] = ()
    """Of fleetrun; without any the script runs by itself."""
    arguments: tuple[str, ...] = ("train.py",)
    """What follows the options: usually the script."""
    fails: bool = True
    """Whether it is an error; else a warning, and the job goes on."""
    leaves: tuple[str, ...] = ()
    """What the script itself wrote into its folder."""
    after_a_save: bool = False
    """Whether the right script has saved into `saved` before."""


def edited(script: str, changes: tuple[tuple[str, str], ...]) -> str:
    """The script with each change made, where its text first stands."""
    for old, new in changes:
        assert old in script, f"no {old!r} in the script"
        script = script.replace(old, new, 1)
    return script
