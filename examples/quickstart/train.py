"""Two spirals, one small network, any number of workers.

    python examples/quickstart/train.py                                          one process
    fleetrun --nproc_per_node 2 --device cpu examples/quickstart/train.py        two

Lines marked (1) to (4) are all that distributed training adds.
"""

import argparse

import torch
from torch import nn

import fleet


def spirals(num_points: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on two arms that wind around each other, and the arm each belongs to."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(2, (num_points,), generator=generator)
    angle = 3 * torch.pi * torch.rand(num_points, generator=generator).sqrt()
    turned = angle + torch.pi * label
    points = torch.stack([angle * turned.cos(), angle * turned.sin()], dim=1) / (3 * torch.pi)
    return points + 0.02 * torch.randn(points.shape, generator=generator), label


def main(num_steps: int, batch_size: int) -> float:
    fleet.init(is_collective=True)  # (1) who am I, where are the others
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 2))
    model = fleet.distributed_model(network)  # (2) gradients are averaged over the workers
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=3e-3))  # (3)

    bar = fleet.progress(range(num_steps), "training", enabled=fleet.is_first_worker())
    for step in bar:
        seed = step * fleet.worker_num() + fleet.worker_index()  # (4) each worker sees its own data
        points, label = (part.to(fleet.device) for part in spirals(batch_size, seed))
        loss = nn.functional.cross_entropy(model(points), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            bar.show(loss=loss.item())

    points, label = (part.to(fleet.device) for part in spirals(10_000, seed=-1))
    with torch.no_grad():
        accuracy = float((model(points).argmax(dim=1) == label).float().mean())
    if fleet.is_first_worker():
        print(f"{fleet.worker_num()} worker(s), loss {loss.item():.4f}, accuracy on unseen points {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="tell two spirals apart, on any number of workers")
    parser.add_argument("--steps", type=int, default=1500, help="[default: 1500]")
    parser.add_argument("--batch_size", type=int, default=256, help="of each worker [default: 256]")
    args = parser.parse_args()
    main(args.steps, args.batch_size)
