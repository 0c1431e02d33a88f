"""Trains all models of `support.worker.model_cases` at once; every process of the job runs it.

fleetrun ... model_job.py FOLDER        leaves each worker's losses, and the saved models, in FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fleet


def main(folder: Path) -> None:
    """A server, or a worker."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    strategy.sync_batch_norm = True  # Dice has one
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    import torch

    from support.parity.model_truth import DENSE, Zoo
    from support.worker.model_cases import share

    worker, num_workers = fleet.worker_index(), fleet.worker_num()
    torch.set_num_threads(1)
    torch.manual_seed(worker)
    zoo = fleet.distributed_model(Zoo())
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(zoo.dense(), **DENSE))
    fleet.init_worker()
    steps = [
        [share(batch, worker, num_workers) for batch in step]
        for step in zip(*(case.batches() for case in zoo.cases), strict=True)
    ]
    losses: dict[str, list[float]] = {case.name: [] for case in zoo.cases}
    for step in fleet.prefetch(steps, zoo, keys=zoo.keys):
        found = zoo.losses(step)
        for case, loss in zip(zoo.cases, found, strict=True):
            losses[case.name].append(loss.item())
        optimizer.zero_grad()
        torch.stack(found).sum().backward()
        optimizer.step()
    fleet.barrier_worker()
    if worker == 0:
        fleet.save_inference_model(folder / "model")
    fleet.stop_worker()
    (folder / f"losses-{worker}.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
