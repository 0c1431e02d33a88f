"""A job whose dense gradients are worth sending ahead: each worker leaves a digest of what it has learned."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import fleet

WIDTH = 16
HIDDEN = 384


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--ahead", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    strategy.wire_configs.dense_ahead = bool(arguments.ahead)
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
    else:
        train(arguments.steps, arguments.out)


def train(num_steps: int, out: Path) -> None:
    import torch  # not in servers, which start in a tenth of the time without it
    from torch import nn

    from fleet.ps.worker.parts import meters

    index = fleet.worker_index()
    torch.set_num_threads(1)
    torch.manual_seed(index)
    model = nn.Sequential(
        fleet.nn.Embedding(WIDTH, table="ads", rule=fleet.rules.Adagrad(lr=0.1)),
        nn.Flatten(),
        nn.Linear(4 * WIDTH, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, 1),
    )
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    fleet.init_worker()
    generator = torch.Generator().manual_seed(index)
    data = [torch.randint(0, 1000, (32, 4), generator=generator) for _ in range(num_steps)]
    for ids in fleet.prefetch(data, model, keys=lambda ids: ids):
        target = (ids.sum(1, keepdim=True) % 2).float()
        nn.functional.mse_loss(model(ids), target).backward()
        optimizer.step()
        optimizer.zero_grad()
    fleet.stop_worker()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    found = {"digest": digest.hexdigest(), "dense_bytes": size, **meters.counts()}
    (out / f"worker{index}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
