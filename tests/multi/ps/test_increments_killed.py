"""Servers of a durable job are killed between increments: what changed since the last one is known all the same."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from fleet.checkpoint import Manifest, read_contents
from support.increments import tables_in
from support.jobs import RunningJob, script

pytestmark = pytest.mark.timeout(200)

TRAIN = """
import os, signal
from pathlib import Path
import torch
from torch import nn
import fleet

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.ads = fleet.nn.Embedding(3, table="ads", rule=fleet.rules.Adagrad(lr=0.1))
        entry = fleet.CountFilterEntry(2)
        self.users = fleet.nn.Embedding(2, table="users", rule=fleet.rules.Adam(lr=0.1), entry=entry)
        self.first, self.second = nn.Linear(5, 4), nn.Linear(4, 1)

    def forward(self, ids):
        return self.second(self.first(torch.cat([self.ads(ids), self.users(ids)], 1)))

strategy = fleet.DistributedStrategy()
strategy.a_sync = True
fleet.init(strategy=strategy)
if fleet.is_server():
    Path(f"server-{fleet.server_index()}").write_text(str(os.getpid()))
    fleet.init_server()
    fleet.run_server()
    raise SystemExit
torch.manual_seed(0)
model = fleet.distributed_model(Two())
both = [
    fleet.distributed_optimizer(torch.optim.Adam([*model.ads.parameters(), *model.users.parameters(),
                                                  *model.first.parameters()])),
    fleet.distributed_optimizer(torch.optim.SGD(model.second.parameters(), lr=0.1)),
]
fleet.init_worker()

def train(*ids):
    for one in both:
        one.zero_grad()
    model(torch.tensor(ids)).square().sum().backward()
    for one in both:
        one.step()

def kill(server):
    fleet.flush()
    os.kill(int(Path(f"server-{server}").read_text()), signal.SIGKILL)

train(*range(300))
train(*range(300))
fleet.save_persistables("chain", incremental=True)
train(1, 2, 3, 1000)
kill(1)
train(2, 3, 4, 5)
fleet.shrink(unseen_steps=3)
fleet.save_persistables("chain", incremental=True)
kill(0)
train(7, 8, 1001)
kill(1)
train(9, 9)
fleet.save_persistables("chain", incremental=True)
fleet.save_persistables("whole")
fleet.stop_worker()
"""


def test_servers_that_are_killed_between_increments_know_what_has_changed(tmp_path: Path) -> None:
    command = ["--server_num", 2, "--worker_num", 1, "--durable", "kept", script(tmp_path, TRAIN)]
    with RunningJob(command, tmp_path, warm=True) as running:
        result = running.finish()
    assert result.code == 0, result.err
    assert result.err.count(f"was killed by {signal.SIGKILL.name}; started again") == 3, result.err
    chain = tmp_path / "chain"
    for number, most in ((1, 20), (2, 20)):
        manifest = read_contents(chain / f"increment-{number:08}", Manifest)
        kinds = [json.dumps(piece.to_json()) for piece in manifest.pieces]
        assert not manifest.tables, "every server has written what changed alone"
        assert 0 < sum(getattr(piece, "rows", 0) for piece in manifest.pieces) <= most, kinds
    for num_servers in (1, 2, 3):
        assert tables_in(chain, num_servers) == tables_in(tmp_path / "whole")
