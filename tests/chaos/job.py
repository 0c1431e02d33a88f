"""The job that chaos strikes: a small click model on 2 servers, with every kind of state that could be lost.

    fleetrun --server_num 2 --worker_num 2 tests/chaos/job.py --mode sync --save DIR

Rows with Adagrad and with Adam, dense parameters with Adam. One more table counts: it has a row for each sample in each
epoch, which grows by one each time the sample is trained, on the servers and nowhere else.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import fleet

BATCH, SLOTS, NUM_IDS = 16, 5, 3000


class Clicks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = fleet.nn.Embedding(4, table="wide", rule=fleet.rules.Adagrad(lr=0.05))
        self.deep = fleet.nn.Embedding(8, table="deep", rule=fleet.rules.Adam(lr=0.01))
        zeros = fleet.initializers.Constant(0.0)
        self.times = fleet.nn.Embedding(1, table="times", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)
        self.layers = nn.Sequential(nn.Linear(SLOTS * 12, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, visits: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores, and a number whose gradient is -1 for the row of each visit, a sample in an epoch."""
        rows = torch.cat([self.wide(ids), self.deep(ids)], dim=2).flatten(1)
        scores: torch.Tensor = self.layers(rows).squeeze(1)
        return scores, -self.times(visits).sum()


def data(num_samples: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The number of each sample, its ids and its label."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, NUM_IDS, (num_samples, SLOTS), generator=generator)
    return torch.arange(num_samples), ids, (ids.sum(1) % 3 == 0).float()


def strategy_of(mode: str) -> fleet.DistributedStrategy:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    strategy.a_sync_configs.half_async = mode == "half"
    strategy.a_sync_configs.k_steps = 4 if mode == "geo" else 0
    return strategy


def take_snapshots(size_bytes: int) -> None:
    """Let a server take a snapshot whenever its journal has grown by so much, and begin new files often."""
    from fleet.ps.durable import durability
    from fleet.ps.journal import writer

    durability.SNAPSHOT_BYTES, durability.ROWS_AT_ONCE, writer.SEGMENT_BYTES = size_bytes, 100, size_bytes // 8


def main(args: argparse.Namespace) -> None:
    fleet.init(strategy=strategy_of(args.mode))
    if fleet.is_server():
        if args.snapshot_bytes:
            take_snapshots(args.snapshot_bytes)
        fleet.run_server()
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = fleet.distributed_model(Clicks())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    fleet.init_worker()
    batches = fleet.data.shard(data(args.samples), BATCH, shuffle=True, seed=3)
    for epoch in range(batches.epoch, args.epochs):
        for samples, ids, labels in batches:
            scores, count = model(epoch * args.samples + samples, ids)
            optimizer.zero_grad()
            (binary_cross_entropy_with_logits(scores, labels) + count).backward()
            optimizer.step()
    fleet.flush()
    fleet.barrier_worker()
    fleet.save_persistables(args.save)
    fleet.stop_worker()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A small click model.")
    parser.add_argument("--mode", choices=["sync", "async", "half", "geo"], default="sync")
    parser.add_argument("--samples", type=int, default=1280)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--snapshot_bytes", type=int, default=0)
    parser.add_argument("--save", required=True, metavar="DIR")
    main(parser.parse_args())
