"""One worker or server of `benchmarks/elastic.py`: MODE, in a folder with `train` and `test.npz`.

In mode `sync` a step applies the sum over its workers, so that a sample weighs as much whatever their number is; in
mode `mean` their mean.

A table counts how often each sample was trained on; another learns made-up clicks. Each worker writes when it has made
each step. Until there is a file `fast`, a step takes THINK_S more, as if the model were larger.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import fleet

NUM_FIELDS, NUM_IDS, BATCH_SIZE, THINK_S = 4, 1000, 128, 0.2
FIELDS = [f"c{field}" for field in range(NUM_FIELDS)]
SCHEMA = fleet.data.Schema(
    label="label",
    categories=[fleet.data.Category(name, hash=False) for name in ("row", *FIELDS)],
    columns=["label", "row", *FIELDS],
)


class Clicks(nn.Module):
    """A logistic regression over ids, and counts."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        counts = fleet.rules.SGD(lr=1.0) if mode != "mean" else fleet.rules.Adam(lr=1.0, betas=(0.0, 0.0), eps=1e-12)
        zero = fleet.initializers.Constant(0.0)
        self.rows = fleet.nn.Embedding(1, rule=counts, initializer=zero)
        self.weights = fleet.nn.Embedding(1, rule=fleet.rules.Adagrad(lr=0.1), initializer=zero)
        self.bias = nn.Linear(1, 1)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.weights(ids).sum(1).squeeze(-1) + self.bias(torch.ones(len(ids), 1)).squeeze(-1)


def auc(scores: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    """The area under the ROC curve; no two scores are equal, or nearly so."""
    ranks = scores.argsort().argsort() + 1
    num = int(labels.sum())
    return float((ranks[labels > 0].sum() - num * (num + 1) / 2) / (num * (len(labels) - num)))


def main(mode: str) -> None:
    """Train one epoch."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode not in ("sync", "mean")
    if mode == "sync":
        strategy.gradient_scale_configs.scale_strategy = "sum"
    fleet.init(strategy=strategy)
    if fleet.is_server():
        sys.exit(fleet.run_server())
    model: Any = fleet.distributed_model(Clicks(mode))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    batches = fleet.data.files("train", SCHEMA, BATCH_SIZE, shuffle=True, queue=True)
    fleet.init_worker()
    offsets = torch.arange(NUM_FIELDS) * NUM_IDS
    with Path(f"steps.{fleet.worker_index()}.{os.getpid()}").open("w") as notes:
        for batch in batches:
            ids = batch.ids.reshape(len(batch.ids), -1)
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(ids[:, 1:] + offsets), batch.label)
            (loss - model.rows(ids[:, :1]).sum()).backward()
            optimizer.step()
            print(time.time(), file=notes, flush=True)
            if not os.path.exists("fast"):
                time.sleep(THINK_S)
    if os.environ.get("FLEET_ELASTIC") != "1":  # there an epoch ends when all of it is trained on
        fleet.flush()
        fleet.barrier_worker()
    if fleet.is_first_worker():
        state = fleet.gather_state_dict(model)
        test = np.load("test.npz")
        weights = torch.zeros(NUM_FIELDS * NUM_IDS)
        weights[state["weights.keys"]] = state["weights.weight"].flatten()
        scores = weights[torch.from_numpy(test["ids"]) + offsets].sum(1).numpy()
        counts = np.zeros(int(test["num_train"]))
        counts[state["rows.keys"].numpy()] = state["rows.weight"].flatten().numpy().round(3)
        found = {"auc": auc(scores, test["labels"]), "once": int((counts == 1).sum()), "of": len(counts)}
        Path("found.part").write_text(json.dumps(found))
        Path("found.part").rename("found.json")
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
