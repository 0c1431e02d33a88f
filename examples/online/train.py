"""Learn from clicks as they come, and publish what changes; run.py starts it.

fleetrun --server_num 2 --worker_num 2 --durable kept examples/online/train.py nats://127.0.0.1:4222/clicks stream
"""

import sys

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import fleet

COLUMNS = ["click", "segment", "item"]
SCHEMA = fleet.data.Schema(label="click", categories=["segment", "item"], columns=COLUMNS)
WIDTH, BATCH, RATE = 4, 64, 0.1
IDLE_S = 4.0
"""The job ends when no click has come for so long."""


class Likes(nn.Module):
    """The product of a segment's row and an item's: a server of rows is all that answering needs."""

    def __init__(self) -> None:
        super().__init__()
        rule, initializer = fleet.rules.SGD(lr=RATE), fleet.initializers.Uniform(-0.5, 0.5)
        self.segments = fleet.nn.Embedding(WIDTH, table="segment", rule=rule, initializer=initializer)
        self.items = fleet.nn.Embedding(WIDTH, table="item", rule=rule, initializer=initializer)

    def forward(self, segment: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = (self.segments(segment) * self.items(item)).sum(1)
        return logits


def main(clicks: str, stream: str) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    if fleet.is_server():
        return fleet.run_server()
    model = fleet.distributed_model(Likes())
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=RATE))
    fleet.init_worker()
    fleet.publish(stream, every_s=0.25)
    for batch in fleet.data.files(clicks, SCHEMA, BATCH, follow=fleet.data.Feed(idle_s=IDLE_S)):
        logits = model(batch.ids[:, 0], batch.ids[:, 1])
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(logits, batch.label.float(), reduction="sum").backward()
        optimizer.step()
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
