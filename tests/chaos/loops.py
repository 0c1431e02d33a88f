"""A job that a user would write from the guides, for chaos to strike: DIN over two tables, early stop, evaluation.

    fleetrun --server_num 2 --worker_num 2 tests/chaos/loops.py --save DIR --loop files --optimizers 2

What must be the same however often its processes die is what it saves and prints: rows, layers and the state of their
rules, learning rates, the curve of the evaluations, where it stopped, and the numbers that dropout drew.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import fleet

NUM_SAMPLES, BATCH, HISTORY, NUM_ITEMS, NUM_USERS = 1024, 16, 6, 300, 500


class Din(nn.Module):
    """Attention of an item over a user's history."""

    def __init__(self) -> None:
        super().__init__()
        zeros = fleet.initializers.Constant(0.0)
        self.items = fleet.nn.Embedding(8, table="items")
        self.users = fleet.nn.Embedding(4, table="users", rule=fleet.rules.Adagrad(lr=0.05))
        self.times = fleet.nn.Embedding(1, table="times", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)
        self.attention = nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 1))
        self.norm = nn.BatchNorm1d(20, momentum=None)  # the mean of all batches: it must know how many there were
        self.layers = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))

    def forward(self, user: torch.Tensor, item: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        target, past = self.items(item), self.items(history)
        wide = target.unsqueeze(1).expand_as(past)
        weights = self.attention(torch.cat([past, wide, past * wide], dim=2)).softmax(dim=1)
        interest = (weights * past).sum(dim=1)
        found = torch.cat([self.users(user), target, interest], dim=1)
        scores: torch.Tensor = self.layers(self.norm(found) if len(found) > 1 else found)  # a file may end with one
        return scores.squeeze(1)


class EarlyStop:
    """Stops when the loss has not fallen for some evaluations."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best = float("inf")
        self.bad = 0
        self.curve: list[float] = []

    def add(self, loss: float) -> None:
        self.curve.append(round(loss, 9))
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)

    @property
    def is_over(self) -> bool:
        return self.bad >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "bad": self.bad, "curve": self.curve}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.bad, self.curve = state["best"], state["bad"], list(state["curve"])


class Seen:
    """A mean that the script keeps by itself, updated before the optimizers step."""

    def __init__(self) -> None:
        self.total, self.num = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        return vars(self).copy()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total, self.num = state["total"], state["num"]


def table(num: int, seed: int) -> tuple[torch.Tensor, ...]:
    """The number of each sample, user, item, history, label."""
    generator = torch.Generator().manual_seed(seed)
    user = torch.randint(NUM_USERS, (num,), generator=generator)
    item = torch.randint(NUM_ITEMS, (num,), generator=generator)
    history = torch.randint(NUM_ITEMS, (num, HISTORY), generator=generator)
    label = ((history % 5 == (item % 5).unsqueeze(1)).sum(1) > 1).float()
    return torch.arange(num), user, item, history, label


def write_files(folder: Path, num_samples: int = NUM_SAMPLES) -> None:
    """The samples as text, in two files whose pieces are small."""
    folder.mkdir(exist_ok=True)
    rows = list(zip(*(one.tolist() for one in table(num_samples, 1)), strict=True))
    for part in range(2):
        lines = (
            "\t".join(map(str, (n, user, item, ",".join(map(str, past)), int(label), "x" * 150)))
            for n, user, item, past, label in rows[part::2]
        )
        (folder / f"part-{part}.tsv").write_text("".join(line + "\n" for line in lines))


def of_files(batch: fleet.data.Batch) -> tuple[torch.Tensor, ...]:
    """The columns of a batch of files."""
    number, user, item = batch.ids.unbind(1)
    history = batch.slots["history"]
    assert isinstance(history, torch.Tensor)
    return number, user, item, history, batch.label


def batches_of(loop: str, epochs: int, num_samples: int) -> tuple[Any, Iterator[Any] | None]:
    """The data of the run, if it has a position, and what the script loops over."""
    size = BATCH // fleet.worker_num()
    samples = table(num_samples, 1)
    if loop in ("shard", "ahead"):
        return fleet.data.shard(samples, size, shuffle=True, seed=3), None
    if loop == "files":
        columns = [fleet.data.Category(name, hash=False) for name in ("number", "user", "item")]
        columns.append(fleet.data.Category("history", hash=False, separator=",", length=HISTORY))
        names = ["number", "user", "item", "history", "label", "rest"]
        schema = fleet.data.Schema(label="label", categories=columns, columns=names)
        return fleet.data.files("data/*.tsv", schema, size, shuffle=True, uneven="pad"), None

    def own(step: int) -> tuple[torch.Tensor, ...]:
        order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(step * BATCH // num_samples))
        begin = step * BATCH % num_samples + fleet.worker_index() * size
        return tuple(one[order[begin : begin + size]] for one in samples)

    end = epochs * num_samples // BATCH
    return None, (own(step) for step in (fleet.steps(end) if loop == "steps" else range(fleet.steps_done(), end)))


def optimizers_of(model: Din, number: int) -> list[torch.optim.Optimizer]:
    """One for all; one for tables and one for layers; or one more for the attention."""
    tables: list[nn.Module] = [model.items, model.users, model.times]
    parts: list[list[nn.Module]] = [[model]]
    if number == 2:
        parts = [[model.attention, model.norm, model.layers], tables]
    elif number == 3:
        parts = [[model.norm, model.layers], tables, [model.attention]]
    kinds: list[Any] = [torch.optim.Adam, torch.optim.Adagrad, torch.optim.SGD]
    return [
        kind([one for module in modules for one in module.parameters()], lr=0.02)
        for kind, modules in zip(kinds, parts, strict=False)
    ]


def die(point: str, step: int, deaths: list[str]) -> None:
    """End here, once, if this worker is to."""
    mark = f"{fleet.worker_index()}:{point}:{step}"
    if mark in deaths and not Path(f"died-{mark}").exists():
        Path(f"died-{mark}").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def main(args: argparse.Namespace) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = args.mode != "sync"
    strategy.a_sync_configs.k_steps = 4 if args.mode == "geo" else 0
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    torch.set_num_threads(1)
    torch.manual_seed(fleet.worker_index())
    model = fleet.distributed_model(Din())
    optimizers = [fleet.distributed_optimizer(one) for one in optimizers_of(model, args.optimizers)]
    schedules = [torch.optim.lr_scheduler.StepLR(one, 20, gamma=0.8) for one in optimizers]
    fleet.init_worker()
    held_out = fleet.data.shard(table(256, 2), 32, uneven="join")
    stop, seen = EarlyStop(args.patience), Seen()
    data: Any = None
    if args.loop in ("shard", "ahead", "files"):
        data, _ = batches_of(args.loop, args.epochs, args.samples)
    with fleet.Checkpoint(
        "runs",
        model=model,
        optimizer=optimizers,
        scheduler=schedules,
        data=data,
        extras={"stop": stop, "seen": seen},
        resume=True,
    ) as saved:
        step = saved.step
        assert step == fleet.steps_done() * args.unit, (step, fleet.steps_done())
        if data is None:
            epochs: Any = [batches_of(args.loop, args.epochs, args.samples)[1]]
        else:
            epochs = (
                fleet.prefetch(
                    data, model, keys=lambda batch: {"users": batch[1], "items": batch[2], "times": batch[0]}
                )
                if args.loop == "ahead"
                else data
                for _ in range(data.epoch, args.epochs)
            )
        for batches in epochs:
            if stop.is_over:
                break
            for number, batch in enumerate(batches):
                count, user, item, history, label = of_files(batch) if args.loop == "files" else batch
                die("handed", step, args.die)
                loss = binary_cross_entropy_with_logits(model(user, item, history), label)
                seen.total, seen.num = seen.total + loss.item(), seen.num + 1
                if args.every > 1:
                    with torch.no_grad():  # rows that are read and not trained, as those behind a critic's fakes
                        seen.total += model.users(user).sum().item()
                (loss - model.times(count).sum()).backward()
                if args.accumulate > 1 and (number + 1) % args.accumulate:
                    continue
                for optimizer, schedule in zip(optimizers, schedules, strict=True):
                    if optimizer is not optimizers[0] and (step + 1) % args.every:
                        continue  # it gathers gradients over several steps of the first
                    optimizer.step()
                    optimizer.zero_grad()
                    schedule.step()
                    die("between", step, args.die)
                step += 1
                die("stepped", step, args.die)
                if step % args.measured == 0:
                    stop.add(fleet.evaluate(model, held_out, {"loss": loss_of}, step=measured)["loss"])
                    die("measured", step, args.die)
                    if step % (2 * args.measured) == 0:
                        saved.save(step * args.unit)
                        die("saved", step, args.die)
                    if stop.is_over:
                        break
            for optimizer in optimizers:  # an epoch may end with batches that make no step
                optimizer.zero_grad()
        saved.save(fleet.steps_done())
    fleet.flush()
    fleet.barrier_worker()
    fleet.save_persistables(args.save)
    found = {
        "steps": step,
        "curve": stop.curve,
        "rates": [schedule.get_last_lr() for schedule in schedules],
        "seen": [seen.total, seen.num],
        "drawn": torch.rand(2).tolist(),
    }
    Path(f"found-{fleet.worker_index()}.json").write_text(json.dumps(found))
    fleet.stop_worker()


def loss_of(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return binary_cross_entropy_with_logits(outputs, targets)


def measured(model: nn.Module, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model says of held-out samples, and what is so."""
    _, user, item, history, label = batch
    return model(user, item, history), label


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="DIN over two tables.")
    parser.add_argument("--mode", choices=["sync", "async", "geo"], default="sync")
    parser.add_argument("--loop", choices=["shard", "ahead", "files", "steps", "range"], default="files")
    parser.add_argument("--optimizers", type=int, choices=[1, 2, 3], default=2)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--patience", type=int, default=100)
    parser.add_argument("--samples", type=int, default=NUM_SAMPLES)
    parser.add_argument("--measured", type=int, default=25, help="steps from one evaluation to the next")
    parser.add_argument("--unit", type=int, default=1, help="what a step adds to the script's count")
    parser.add_argument("--die", nargs="*", default=[], metavar="WORKER:POINT:STEP")
    parser.add_argument("--save", required=True, metavar="DIR")
    main(parser.parse_args())
