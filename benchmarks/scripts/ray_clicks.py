"""A small click job, the same under fleetrun and under Ray: when its first step was made, and how fast it went on.

fleetrun --server_num 2 --worker_num 2 --durable DIR ray_clicks.py '{"steps": 600, "out": "result.json"}'
python ray_clicks.py --ray ADDRESS FOLDER '{"steps": 600, "out": "result.json"}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import fleet

BATCH, WARM_UP = 512, 100


def train(config: dict[str, Any]) -> None:
    """One worker, or one server where fleetrun says so; worker 0 writes what was measured."""
    import time

    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits

    class Clicks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr=0.1))
            self.layers = nn.Sequential(nn.Linear(26 * 8, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layers(self.rows(ids).flatten(1)).squeeze(1)
            return out

    fleet.init()
    if fleet.is_server():
        fleet.run_server()
        return
    torch.manual_seed(0)
    model = fleet.distributed_model(Clicks())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-3))
    fleet.init_worker()
    generator = torch.Generator().manual_seed(fleet.worker_index())
    made = [torch.randint(200_000, (BATCH, 26), generator=generator) for _ in range(20)]
    first = began = 0.0
    for step in range(config["steps"]):
        ids = made[step % len(made)]
        loss = binary_cross_entropy_with_logits(model(ids), (ids[:, 0] % 3 == 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 0:
            first = time.time()
        if step == WARM_UP:
            began = time.perf_counter()
    took = time.perf_counter() - began
    if fleet.is_first_worker():
        samples = (config["steps"] - WARM_UP - 1) * BATCH * fleet.worker_num()
        Path(config["out"]).write_text(json.dumps({"first_step_at": first, "samples_per_s": samples / took}))
    fleet.stop_worker()


def on_ray(address: str, folder: str, config: dict[str, Any]) -> None:
    """The same as a job on a Ray cluster that runs already."""
    import ray
    from ray.train import RunConfig

    ray.init(address=address, logging_level="ERROR")
    run = RunConfig(name=Path(config["out"]).stem, storage_path=folder)
    fleet.ray.Trainer(train, servers=2, workers=2, train_loop_config=config, run_config=run).fit()
    ray.shutdown()


if __name__ == "__main__":
    if sys.argv[1] == "--ray":
        on_ray(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    else:
        train(json.loads(sys.argv[1]))
