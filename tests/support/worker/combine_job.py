"""A click model whose workers share a machine, and reach the servers by a network: what a step sends, and receives.

Worker 0 writes --out: bytes of a step that went over the interfaces of its machine but the loopback, how long a step
took, and the mean of the losses of all workers, step by step.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import fleet

NUM_SLOTS, WIDTH = 26, 8
NUM_WARM = 3


def counted() -> tuple[int, int]:
    """Bytes that this machine has received and sent."""
    received = sent = 0
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, counts = line.partition(":")
        if name.strip() != "lo":
            columns = counts.split()
            received, sent = received + int(columns[0]), sent + int(columns[8])
    return received, sent


def train(num_steps: int, batch: int, num_keys: int, hidden: int, out: Path) -> None:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    worker, num_workers = fleet.worker_index(), fleet.worker_num()
    rows = fleet.nn.Embedding(WIDTH, rule=fleet.rules.Adagrad(lr=0.05))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = rows
            layers = [nn.Linear(NUM_SLOTS * WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
            self.layers = nn.Sequential(*layers, nn.Linear(hidden, 1))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.layers(self.rows(ids).reshape(len(ids), -1)).squeeze(1)
            return found

    model = fleet.distributed_model(Net())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.001))
    fleet.init_worker()
    generator = torch.Generator().manual_seed(worker)
    batches = []
    for _ in range(NUM_WARM + num_steps):
        skewed = torch.rand(batch, NUM_SLOTS, generator=generator) ** 4
        batches.append(((skewed * num_keys).long(), torch.rand(batch, generator=generator).round()))
    losses, before, began = [], (0, 0), 0.0
    for number, (ids, labels) in enumerate(fleet.prefetch(batches, model, keys=lambda one: one[0])):
        if number == NUM_WARM:
            fleet.barrier_worker()
            before, began = counted(), time.perf_counter()
        loss = nn.functional.binary_cross_entropy_with_logits(model(ids), labels)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    took_s = time.perf_counter() - began
    fleet.barrier_worker()
    received, sent = (one - other for one, other in zip(counted(), before, strict=True))
    means = fleet.util.all_reduce(torch.tensor(losses, dtype=torch.float64).numpy()) / num_workers
    if worker == 0:
        report = {
            "received_bytes": received / num_steps,
            "sent_bytes": sent / num_steps,
            "step_ms": 1000 * took_s / num_steps,
            "losses": means.tolist(),
        }
        out.write_text(json.dumps(report))
    fleet.stop_worker()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--combine", default="never")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    strategy.combine_gradients = arguments.combine
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        train(arguments.steps, arguments.batch, arguments.keys, arguments.hidden, arguments.out)


if __name__ == "__main__":
    main()
