"""A deep interest network on clicks of a shop, as a user writes one from the guides: din.py DATA OUT

Two tables with different rules, two optimizers, a schedule for each (one follows the validation), clipping, validation
in mid-epoch, early stop by a running metric, checkpoints with extras. Each worker leaves what it has come to in
OUT/found-N.json, which must be the same however often processes die.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import fleet
from fleet.data import Category, Number, Schema

PADDING = 0
BATCH, EPOCHS, MEASURE_EVERY, SAVE_EVERY = 128, 6, 8, 12
COLUMNS = Schema(
    label="click",
    numbers=[Number("price", log=True)],
    categories=[
        "user",
        Category("item", slot="item"),
        Category("history", slot="item", separator="|", length=8, padding=PADDING),
    ],
    header=True,
)


def write_shop(folder: Path, num_samples: int = 7_000) -> None:
    """Clicks of users who like items of the kinds that they have looked at."""
    draw = random.Random(3)
    for part, num_files, count in (("train", 4, num_samples), ("valid", 2, num_samples // 7)):
        (folder / part).mkdir(parents=True)
        for number in range(num_files):
            lines = ["click\tuser\tprice\titem\thistory"]
            for _ in range(count // num_files):
                user, item = draw.randrange(200), draw.randrange(120)
                history = [draw.randrange(12) * 10 + (user + draw.randrange(3)) % 10 for _ in range(draw.randrange(9))]
                is_liked = any(seen % 10 == item % 10 for seen in history)
                click = draw.random() < (0.75 if is_liked else 0.2) + (user % 7 - 3) * 0.03
                price = f"{draw.random() * 90:.2f}" if draw.random() < 0.9 else ""
                lines.append(f"{int(click)}\tu{user}\t{price}\ti{item}\t{'|'.join(f'i{seen}' for seen in history)}")
            (folder / part / f"{number}.tsv").write_text("\n".join(lines) + "\n")


class Attention(nn.Module):
    """What a user's history says about an item: its rows, weighted by how they go with that of the item."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * width, 16), nn.PReLU(), nn.Linear(16, 1))

    def forward(self, item: torch.Tensor, history: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        item = item.unsqueeze(1).expand_as(history)
        weights = self.score(torch.cat([item, history, item - history, item * history], dim=2)).squeeze(2)
        interest: torch.Tensor = ((weights * mask).unsqueeze(2) * history).sum(dim=1)
        return interest


class Din(nn.Module):
    """Zhou et al., 2018: a tower over a user, an item, and the user's interest in it."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        start = fleet.initializers.Normal(std=0.5)
        self.items = fleet.nn.Embedding(width, rule=fleet.rules.Adagrad(lr=0.2), initializer=start, padding_idx=PADDING)
        self.users = fleet.nn.Embedding(width)  # follows the optimizer that has its weight
        self.attention = Attention(width)
        self.tower = nn.Sequential(
            nn.BatchNorm1d(3 * width + 1), nn.Linear(3 * width + 1, 32), nn.PReLU(), nn.Dropout(0.2), nn.Linear(32, 1)
        )

    def forward(self, batch: fleet.data.Batch) -> torch.Tensor:
        seen = batch.slots["history"]
        assert isinstance(seen, torch.Tensor)
        user, item, history = self.users(batch.ids[:, 0]), self.items(batch.ids[:, 1]), self.items(seen)
        interest = self.attention(item, history, (seen != PADDING).float())
        scores: torch.Tensor = self.tower(torch.cat([user, item, interest, batch.dense], dim=1))
        return scores.squeeze(1)


class EarlyStop:
    """Ends training when the running mean of a metric has not risen for some validations."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.running, self.best, self.bad, self.curve = 0.5, 0.0, 0, list[float]()

    def add(self, value: float) -> None:
        self.curve.append(value)
        self.running = 0.6 * self.running + 0.4 * value
        self.bad = 0 if self.running > self.best else self.bad + 1
        self.best = max(self.best, self.running)

    @property
    def is_over(self) -> bool:
        return self.bad >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"running": self.running, "best": self.best, "bad": self.bad, "curve": list(self.curve)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.running, self.best, self.bad = state["running"], state["best"], state["bad"]
        self.curve = list(state["curve"])


class Mean:
    """The mean of this worker's losses."""

    def __init__(self) -> None:
        self.total, self.num = 0.0, 0

    def add(self, value: float) -> None:
        self.total, self.num = self.total + value, self.num + 1

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total, "num": self.num}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total, self.num = state["total"], state["num"]


def digest_of(state: dict[str, torch.Tensor]) -> str:
    """A digest of all rows, in the order of their ids, and all layers."""
    found = hashlib.sha256()
    for name, value in sorted(state.items()):
        keys = state.get(f"{name.rpartition('.')[0]}.keys")
        ordered = value if keys is None else value[keys.argsort()]
        found.update(f"{name} {tuple(value.shape)}".encode() + ordered.contiguous().numpy().tobytes())
    return found.hexdigest()


def measured(model: nn.Module, batch: fleet.data.Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model says of a batch, and what is so."""
    return model(batch), batch.label


def main(data: str, out: str) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    strategy.clip_norm = 1.0
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    torch.manual_seed(0)
    net = Din()
    model = fleet.distributed_model(net)
    interest = [*net.items.parameters(), *net.users.parameters(), *net.attention.parameters()]
    first = fleet.distributed_optimizer(torch.optim.Adam(interest, lr=0.02))
    second = fleet.distributed_optimizer(torch.optim.SGD(net.tower.parameters(), lr=0.05, momentum=0.9))
    fleet.init_worker()
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(first, T_max=300)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(second, mode="max", factor=0.5, patience=1)
    train = fleet.data.files(f"{data}/train", COLUMNS, BATCH // fleet.worker_num(), shuffle=True, uneven="pad")
    valid = fleet.data.files(f"{data}/valid", COLUMNS, 256)
    stop, mean = EarlyStop(patience=3), Mean()

    with fleet.Checkpoint(
        f"{out}/checkpoints",
        model=model,
        optimizer=[first, second],
        scheduler=[cosine, plateau],
        data=train,
        extras={"stop": stop, "mean": mean},
        keep=2,
        best="max",
        resume=True,
    ) as saved:
        step = saved.step
        for _ in range(train.epoch, EPOCHS):
            for batch in train:
                loss = binary_cross_entropy_with_logits(model(batch), batch.label)
                first.zero_grad()
                second.zero_grad()
                loss.backward()
                first.step()
                second.step()
                cosine.step()
                mean.add(loss.item())
                step += 1
                if step % MEASURE_EVERY == 0:
                    metrics = {"auc": fleet.metrics.AUC(from_logits=True)}
                    stop.add(fleet.evaluate(model, valid, metrics, step=measured)["auc"])
                    plateau.step(stop.running)
                    if fleet.is_first_worker():
                        print(f"step {step}: running AUC {stop.running:.4f}, bad {stop.bad}", flush=True)
                if stop.is_over:
                    break
                if step % SAVE_EVERY == 0:
                    saved.save(step, metric=stop.running)
            if stop.is_over:
                break
        saved.save(step, metric=stop.running)
    losses = fleet.util.all_reduce(mean.total) / fleet.util.all_reduce(mean.num)
    found = {
        "steps": [step, fleet.steps_done(), saved.step, saved.best_step],
        "epoch": train.epoch,
        "rates": [group["lr"] for one in (first, second) for group in one.param_groups],
        "extras": [stop.state_dict(), mean.state_dict()],
        "losses": losses,
        "drawn": torch.rand(2).tolist(),
        "model": digest_of(fleet.gather_state_dict(model)) if fleet.is_first_worker() else None,
    }
    Path(out, f"found-{fleet.worker_index()}.json").write_text(json.dumps(found))
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
