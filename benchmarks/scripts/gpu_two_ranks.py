"""Two workers that share a GPU end with the same weights as one process that trains on both halves of each batch.

    fleetrun --gpus 0 --nproc_per_node 2 benchmarks/scripts/gpu_two_ranks.py --out FOLDER

NCCL refuses two ranks on one GPU; `fleet.init` takes Gloo where workers share one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import fleet

STEPS, HALF = 10, 16
Batch = tuple[Tensor, Tensor]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> None:
    for images, labels in batches:
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False  # its rounding depends on the batch's size, and would hide ours

    fleet.init(is_collective=True)
    rank = fleet.worker_index()
    torch.manual_seed(1)
    whole = [
        (torch.randn(2 * HALF, 3, 32, 32).to(fleet.device), torch.randint(10, (2 * HALF,)).to(fleet.device))
        for _ in range(STEPS)
    ]
    mine = slice(rank * HALF, (rank + 1) * HALF)

    model = network()
    optimizer = fleet.distributed_optimizer(optimizer_of(model))
    train(fleet.distributed_model(model), optimizer, [(images[mine], labels[mine]) for images, labels in whole])
    alone = network().to(fleet.device)
    train(alone, optimizer_of(alone), whole)

    with torch.no_grad():
        pairs = list(zip(model.parameters(), alone.parameters(), strict=True))
        difference = max(float((ours - theirs).norm() / theirs.norm()) for ours, theirs in pairs)
        before = network().to(fleet.device)
        moved = max(
            float((now - then).norm()) for now, then in zip(alone.parameters(), before.parameters(), strict=True)
        )
    found = {"workers": fleet.worker_num(), "device": str(fleet.device), "difference": difference, "moved": moved}
    (options.out / f"worker{rank}.json").write_text(json.dumps(found))
    assert "nccl" not in str(dist.get_backend_config())


if __name__ == "__main__":
    main()
