"""The CTR task as a user's script: fleetrun starts it as workers and servers.

Each worker leaves its losses in the folder --out, as JSON, and worker 0 the AUC of what all have learned.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import fleet


def strategy_of(mode: str) -> fleet.DistributedStrategy:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode in ("async", "half_async", "geo")
    strategy.a_sync_configs.half_async = mode == "half_async"
    strategy.a_sync_configs.k_steps = 5 if mode == "geo" else 0
    strategy.dense = "allreduce" if mode == "hybrid" else "server"
    return strategy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["sync", "hybrid", "async", "half_async", "geo"], required=True)
    parser.add_argument("--batches", type=int, help="of each worker; all there are when not given")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    fleet.init(strategy=strategy_of(arguments.mode))
    if fleet.is_server():
        fleet.run_server()
    else:
        result = train(arguments.batches)
        (arguments.out / f"worker{fleet.worker_index()}.json").write_text(json.dumps(result))


def train(num_batches: int | None) -> dict[str, object]:
    import torch  # not in servers, which start in a tenth of the time without it

    from support.parity.ctr import (
        DENSE_LR,
        INITIALIZER,
        TABLE_EPS,
        TABLE_LR,
        WIDTH,
        Clicks,
        auc_of,
        held_out,
        loss_of,
        stream,
    )

    torch.set_num_threads(1)
    torch.manual_seed(fleet.worker_index())
    rule = fleet.rules.Adagrad(lr=TABLE_LR, eps=TABLE_EPS)
    rows = fleet.nn.Embedding(WIDTH, table="ids", rule=rule, initializer=INITIALIZER)
    model = fleet.distributed_model(Clicks(rows))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=DENSE_LR))
    fleet.init_worker()
    losses = []
    data = stream(fleet.worker_index())[:num_batches]
    for batch in fleet.prefetch(data, model, keys=lambda batch: batch.ids):
        loss = loss_of(model, batch)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    fleet.flush()
    fleet.barrier_worker()  # now the servers have everything
    result: dict[str, object] = {"losses": losses}
    if fleet.is_first_worker():
        result["auc"] = auc_of(model, held_out())
    fleet.barrier_worker()
    fleet.stop_worker()
    return result


if __name__ == "__main__":
    main()
