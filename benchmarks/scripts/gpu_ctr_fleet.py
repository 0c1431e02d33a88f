"""CTR-DNN on one GPU through Fleet, its table in host memory, in this process.

    python benchmarks/scripts/gpu_ctr_fleet.py --cache-rows 2600000 < LINES

One worker and no server: the service runs in this process (docs/gpu.md). The table is filled before training.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gpu_ctr_workload import DENSE_LR, ROW_EPS, ROW_LR, WIDTH, Batch, Batches, device_of, layers, parser_of, serve
from torch import nn
from torch.nn import functional as F  # noqa: N812

import fleet
from fleet.ps.worker.parts import meters

PARTS = ("next", "forward", "backward", "step")
CHUNK = 500_000


class CTR(nn.Module):
    """As benchmarks/scripts/ctr_fleet.py has it."""

    def __init__(self, **cache: Any) -> None:
        super().__init__()
        self.layers = layers()
        self.rows = fleet.nn.Embedding(
            WIDTH,
            table="ids",
            rule=fleet.rules.Adagrad(lr=ROW_LR, eps=ROW_EPS),
            initializer=fleet.initializers.Uniform(-1e-2, 1e-2),
            **cache,
        )

    def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(torch.cat([self.rows(ids).flatten(1), dense], dim=1))
        return logits


def fill(model: CTR, num_rows: int) -> None:
    """Give the table the rows that a long training would have left there."""
    (table,) = model.rows.worker.client.transports[0].service.state.held.tables  # type: ignore[attr-defined]

    def put(first: int) -> None:
        keys = np.arange(first, min(first + CHUNK, num_rows), dtype=np.int64)
        table.assign(keys, table.pull(keys))

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(put, range(0, num_rows, CHUNK)))


def main() -> None:
    begun = time.perf_counter()
    parser = parser_of(__doc__)
    parser.add_argument("--cache-rows", type=int, default=0, help="Of the GPU; 0: no cache.")
    parser.add_argument("--mode", choices=["sync", "async"], default="sync")
    parser.add_argument("--dense", choices=["server", "allreduce"], default="server", help="strategy.dense")
    parser.add_argument("--graphs", action="store_true", help="strategy.cuda_graphs")
    options = parser.parse_args()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = options.mode == "async"
    strategy.dense = options.dense
    strategy.cuda_graphs = options.graphs
    fleet.init(strategy=strategy)
    torch.manual_seed(0)
    device = device_of()
    cache = {"cache": "gpu", "cache_rows": options.cache_rows} if options.cache_rows else {}
    model = fleet.distributed_model(CTR(**cache).to(device))
    adam = torch.optim.Adam(model.parameters(), lr=DENSE_LR, fused=device.type == "cuda")
    optimizer = fleet.distributed_optimizer(adam)
    fleet.init_worker()
    fill(model, options.rows)
    filled_s = time.perf_counter() - begun
    now = time.perf_counter

    def train(data: Batches) -> tuple[list[torch.Tensor], dict[str, float]]:
        spent, losses, timed = dict.fromkeys(PARTS, 0.0), [], meters.snapshot()
        counts = meters.counts()
        end = now()
        for ids, dense, label in fleet.prefetch(data, model, keys=lambda batch: batch.ids):
            moments = [end, now()]
            logits = model(ids, dense.to(device, non_blocking=True))
            loss = F.cross_entropy(logits, label.to(device, non_blocking=True))
            moments.append(now())
            loss.backward()
            moments.append(now())
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
            end = now()
            for part, (begin, finish) in zip(PARTS, pairwise([*moments, end]), strict=True):
                spent[part] += 1000 * (finish - begin)
        fleet.flush()
        for name, total in meters.snapshot().items():
            spent[f"of them {name}"] = 1000 * (total - timed.get(name, 0.0))
        for name, total in meters.counts().items():
            spent[name] = float(total - counts.get(name, 0))
        return losses, spent

    def predict(batch: Batch) -> torch.Tensor:
        model.eval()
        with torch.no_grad():
            found: torch.Tensor = model(batch.ids, batch.dense.to(device)).softmax(dim=1)[:, 1]
        model.train()
        return found

    serve(options, train, predict, begun, filled_s=filled_s)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
