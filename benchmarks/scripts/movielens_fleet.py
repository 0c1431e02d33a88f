"""One of our models on MovieLens, in one process with the tables in it: for benchmarks/movielens.py.

    python movielens_fleet.py MODEL DATA OUT [--seed 0] [--epochs 300]

MODEL is DeepFM, DCNv2 or DIN (clicks), SASRec or TwoTower (sequences). Training stops when the validation set says so,
and OUT gets the scores of the test set at that moment, by the names of users and items, as .npz.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fleet
from fleet import models
from fleet.data import Batch
from fleet.models import Recommender

sys.path.insert(0, str(Path(__file__).parents[1]))

import movielens_files
from movielens_files import Data

movielens = movielens_files.movielens

CLICKS: dict[str, Any] = {"num_dense": 0, "num_slots": len(movielens.FIELDS), "bags": ("genres",)}


@dataclass(frozen=True)
class Setting:
    """How a model is made and trained."""

    make: Callable[[Data], Recommender]
    batch_size: int
    lr: float
    weight_decay: float = 0.0
    windows: bool = False
    patience: int = 5
    """Epochs without a better figure before training stops; RecBole's is 10."""


SETTINGS = {
    "DeepFM": Setting(lambda _: models.DeepFM(**CLICKS, dim=16, hidden=(128, 128), dropout=0.2), 1024, 1e-3),
    "DCNv2": Setting(lambda _: models.DCN(**CLICKS, dim=16, hidden=(128, 128), dropout=0.2), 1024, 1e-3),
    "DIN": Setting(
        lambda _: models.DIN(**CLICKS, item=movielens.ITEM, dim=16, hidden=(128, 64), dropout=0.2), 1024, 1e-3
    ),
    "SASRec": Setting(
        lambda data: models.SASRec(
            item=movielens.ITEM, items=torch.from_numpy(data.ratings.item_ids), dim=64, layers=1, dropout=0.5
        ),
        64,
        1e-3,
        windows=True,
        patience=10,
    ),
    "TwoTower": Setting(
        lambda _: models.TwoTower(
            user=[0, 2, 3, 4], item=[movielens.ITEM, 6], history="history", log_q=0, dim=64, dropout=0.2
        ),
        1024,
        1e-3,
    ),
}


def batches(data: Batch, size: int, generator: torch.Generator) -> Iterator[Batch]:
    """All samples once, in another order each time."""
    for index in torch.randperm(data.size, generator=generator).split(size):
        yield movielens.part(data, index)


@torch.no_grad()
def clicks(net: Recommender, data: Batch) -> torch.Tensor:
    """The probability of each sample."""
    parts = torch.arange(data.size).split(4096)
    return torch.cat([net.scores(net(movielens.part(data, index))) for index in parts])


@torch.no_grad()
def rankings(net: Any, batch: Batch, data: Data) -> torch.Tensor:
    """[users, items]: how well each item would come next."""
    if isinstance(net, models.SASRec):
        assert net.items is not None
        order = torch.searchsorted(net.items, torch.from_numpy(data.ratings.item_ids))
        return net.newest(net(batch), batch)[:, order]
    rows = np.unique(data.ratings.item, return_index=True)[1]  # a rating of each item: its tower asks for no more
    items = movielens.batch_of(data.ratings, rows, np.zeros((len(rows), 1), dtype=np.int64), np.zeros(len(rows)))
    scores: torch.Tensor = net.vectors(batch)[0] @ net.vectors(items)[1].T
    return scores


def ndcg(scores: torch.Tensor, wanted: torch.Tensor, seen: torch.Tensor) -> float:
    """NDCG@10 of one wanted item a user, among those not seen."""
    scores = scores.masked_fill(seen, -torch.inf)
    rank = (scores > scores.gather(1, wanted.unsqueeze(1))).sum(1)
    return float(((rank < 10) / torch.log2(rank + 2.0)).mean())


class Task:
    """The split of a model, and its figures."""

    def __init__(self, name: str, data: Data, windows: bool) -> None:
        self.data, self.is_click = data, name in ("DeepFM", "DCNv2", "DIN")
        self.split = data.clicks if self.is_click else movielens.leave_one_out(data.ratings, windows=windows)
        self._auc = fleet.metrics.AUC()

    def valid(self, net: Recommender) -> float:
        """The figure that training stops by: AUC or NDCG@10."""
        if self.is_click:
            self._auc.reset()
            self._auc.update(clicks(net, self.split.valid), self.split.valid.label)
            return float(self._auc.compute())
        ratings, rows = self.data.ratings, self.split.rows[1]
        seen = self.data.seen.copy()
        wanted = ratings.item[rows]
        seen[np.arange(len(wanted)), wanted] = False
        return ndcg(rankings(net, self.split.valid, self.data), torch.from_numpy(wanted), torch.from_numpy(seen))

    def test(self, net: Recommender) -> dict[str, Any]:
        """Scores of the test set, with names."""
        ratings, rows, test = self.data.ratings, self.split.rows[2], self.split.test
        users, items = np.array(ratings.users["user"]), np.array(ratings.items["item"])
        if self.is_click:
            scores = clicks(net, test).numpy()
            return {"users": users[ratings.user[rows]], "items": items[ratings.item[rows]], "scores": scores}
        return {"users": users[ratings.user[rows]], "items": items, "scores": rankings(net, test, self.data).numpy()}


def main(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    setting = SETTINGS[args.model]
    data = movielens_files.open_data(args.data)
    task = Task(args.model, data, setting.windows)
    fleet.init()
    net = setting.make(data)
    model = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(
        torch.optim.Adam(net.parameters(), lr=setting.lr, weight_decay=setting.weight_decay)
    )
    fleet.init_worker()
    start = time.perf_counter()
    best, best_epoch, found = 0.0, 0, {}
    for epoch in range(args.epochs):
        net.train()
        total = []
        for batch in batches(task.split.train, setting.batch_size, generator):
            loss = net.loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total.append(loss.item())
        net.eval()
        figure = task.valid(net)
        print(f"epoch {epoch}: loss {np.mean(total):.4f}, valid {figure:.4f}", file=sys.stderr, flush=True)
        if figure > best:
            best, best_epoch, found = figure, epoch, task.test(net)
        if epoch - best_epoch >= setting.patience:
            break
    seconds = time.perf_counter() - start
    fleet.stop_worker()
    np.savez(args.out, seconds=seconds, **found)
    print(f"{args.model}: valid {best:.4f} in epoch {best_epoch}, {seconds:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", choices=list(SETTINGS))
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=300)
    main(parser.parse_args())
