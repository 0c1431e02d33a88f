"""What becomes of differences that several workers send in geo mode: rules of exchange, on the same clicks.

    python benchmarks/geo.py --json benchmarks/results/geo.json

Workers of one process train a small CTR-DNN in turns, and exchange in turns, so that nothing depends on the machine.
`residual`: a worker sends its difference divided by the number of workers, and keeps and sends later what is left, as
PaddlePaddle does. `mean`: the same, but it goes on from the sum of the servers. `touched`: a row is divided by the
number of workers that have touched it, which only a simulation knows. `copies`: what Fleet does (docs/adr/0027).
`sync`: one step with the batches of all workers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from harness import write_results
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn.functional import cross_entropy

import fleet
from fleet import _native
from fleet.metrics import AUC

sys.path.insert(0, str(Path(__file__).parents[1]))
from examples.ctr.data import DENSE, SLOTS, Batch, batches

WIDTH, HIDDEN, HELD_OUT = 10, 128, 8
RATE, LR = 0.05, 1e-3
RULE = fleet.rules.Adagrad(lr=RATE, eps=1e-6)
RULES = ("residual", "mean", "touched", "copies")
Keys = NDArray[np.int64]


def table(rule: Any = None) -> _native.Table:
    name, args = (rule.name, dict(rule.args)) if rule else ("sum", {})
    first = fleet.initializers.Uniform(-1e-2, 1e-2)
    return _native.Table("ids", WIDTH, name, args, first.name, dict(first.args), "always", {})


def network() -> nn.Sequential:
    torch.manual_seed(0)
    sizes = [SLOTS * WIDTH + DENSE, HIDDEN, HIDDEN, HIDDEN]
    hidden = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(HIDDEN, 2))


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def load(model: nn.Module, values: torch.Tensor) -> None:
    nn.utils.vector_to_parameters(values.clone(), model.parameters())


def scores(model: nn.Module, rows: torch.Tensor, inverse: NDArray[np.int64], batch: Batch) -> torch.Tensor:
    found = rows[torch.from_numpy(inverse.reshape(batch.ids.shape))].flatten(1)
    result: torch.Tensor = model(torch.cat([found, batch.dense], 1))
    return result


class Servers:
    """What all workers share."""

    def __init__(self, rule: Any = None) -> None:
        self.rows, self.dense, self.version = table(rule), flat(network()), 0

    @torch.no_grad()
    def judged(self, unseen: Sequence[Batch]) -> dict[str, float]:
        model, metric, losses = network(), AUC(), []
        load(model, self.dense)
        for batch in unseen:
            keys, inverse = np.unique(batch.ids.numpy(), return_inverse=True)
            logits = scores(model, torch.from_numpy(self.rows.pull(keys)), inverse, batch)
            losses.append(cross_entropy(logits, batch.label).item())
            metric.update(logits.softmax(1)[:, 1], batch.label)
        return {"loss": sum(losses) / len(losses), "AUC": metric.compute()}


class Worker:
    """Trains on rows and a network of its own."""

    def __init__(self, servers: Servers, data: Sequence[Batch], rule: str, num_workers: int) -> None:
        self.servers, self.data, self.rule, self.num_workers = servers, data, rule, num_workers
        self.copies = _native.Copies("ids", WIDTH, RULE.name, dict(RULE.args))
        self.own, self.base = table(RULE), table()
        self.model = network()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LR)
        self.start = self.heard = servers.dense.clone()
        self.version, self.done = 0, 0
        self.touched: list[Keys] = []

    def step(self) -> None:
        batch = self.data[self.done]
        self.done += 1
        keys, inverse = np.unique(batch.ids.numpy(), return_inverse=True)
        rows = torch.from_numpy(self.looked_up(keys)).requires_grad_()
        self.optimizer.zero_grad()
        cross_entropy(scores(self.model, rows, inverse, batch), batch.label).backward()
        self.optimizer.step()
        assert rows.grad is not None
        if self.rule == "copies":
            self.copies.push(keys, rows.grad, lr=RATE)
        else:
            self.own.push(keys, rows.grad, step=self.done, lr=RATE)
        self.touched.append(keys)

    def looked_up(self, keys: Keys) -> NDArray[np.float32]:
        if self.rule == "copies":
            wanted, positions, _, located = self.copies.missing(keys, np.array([0, len(keys)]))
            out = np.empty((len(keys), WIDTH), np.float32)
            self.copies.pull(keys, out, positions, self.servers.rows.pull(wanted), located)
            return out
        wanted = keys[self.own.find(keys) == 0]
        for each in (self.own, self.base):
            each.assign(wanted, self.servers.rows.pull(wanted))
        return self.own.pull(keys)

    def exchange(self, others: Sequence[Keys]) -> None:
        """Send differences of rows and dense parameters, and take over what has come of them."""
        servers, num_workers = self.servers, self.num_workers
        awaited = 1 - min(servers.version - self.version, num_workers - 1) / max(1, num_workers - 1)
        servers.version += 1
        self.version = servers.version
        if self.rule == "copies":
            keys, sent, touches, _ = self.copies.difference(num_workers, 1)
            servers.rows.push(keys, sent, step=self.done, lr=1.0)
            back = touches > 1
            rows = servers.rows.pull(keys[back])
            self.copies.merge(keys[back], sent[back], touches[back], rows, num_workers, awaited)
            self.copies.age()
        else:
            self._exchange_rows(others)
        self.touched = []
        own = flat(self.model)
        part = (own - self.start) / num_workers
        servers.dense = servers.dense + part
        rest = {"residual": own - self.start - part, "copies": (num_workers - 1) * awaited * part}
        load(self.model, servers.dense + rest.get(self.rule, 0.0 * part))
        self.start = servers.dense if self.rule == "residual" else flat(self.model)

    def _exchange_rows(self, others: Sequence[Keys]) -> None:
        keys = np.unique(np.concatenate(self.touched))
        own, base = self.own.pull(keys), self.base.pull(keys)
        parts = np.full((len(keys), 1), self.num_workers, np.float32)
        if self.rule == "touched":
            parts = np.float32(1 + sum(np.isin(keys, other) for other in others)).reshape(-1, 1)
        sent = (own - base) / parts
        self.servers.rows.push(keys, sent, step=self.done, lr=1.0)
        rows = self.servers.rows.pull(keys)
        self.own.assign(keys, own + (rows - (base + sent)) if self.rule == "residual" else rows)
        self.base.assign(keys, rows)


def train(rule: str, data: Sequence[Sequence[Batch]], k_steps: int, unseen: Sequence[Batch]) -> list[dict[str, float]]:
    """The loss and AUC on unseen clicks after each round of exchanges."""
    servers, found = Servers(), []
    workers = [Worker(servers, own, rule, len(data)) for own in data]
    for _ in range(len(data[0]) // k_steps):
        for worker in workers:
            for _ in range(k_steps):
                worker.step()
        touched = [np.unique(np.concatenate(worker.touched)) for worker in workers]
        for index, worker in enumerate(workers):
            worker.exchange([keys for other, keys in enumerate(touched) if other != index])
        found.append(servers.judged(unseen))
    return found


def train_in_step(data: Sequence[Sequence[Batch]], unseen: Sequence[Batch]) -> list[dict[str, float]]:
    servers, model = Servers(RULE), network()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for number, together in enumerate(zip(*data, strict=True)):
        batch = Batch(*map(torch.cat, zip(*together, strict=True)))
        keys, inverse = np.unique(batch.ids.numpy(), return_inverse=True)
        rows = torch.from_numpy(servers.rows.pull(keys)).requires_grad_()
        optimizer.zero_grad()
        cross_entropy(scores(model, rows, inverse, batch), batch.label).backward()
        optimizer.step()
        assert rows.grad is not None
        servers.rows.push(keys, rows.grad, step=number, lr=RATE)
    servers.dense = flat(model)
    return [servers.judged(unseen)]


@click.command()
@click.option("--workers", default=4, show_default=True)
@click.option("--steps", default=200, show_default=True, help="Of each worker.")
@click.option("--k-steps", multiple=True, type=int, default=[20, 100], show_default=True, help="May be repeated.")
@click.option("--batch-size", default=500, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(workers: int, steps: int, k_steps: tuple[int, ...], batch_size: int, path: Path | None) -> None:
    torch.set_num_threads(1)
    data = [list(batches(steps, batch_size, worker=index, signal=3.0)) for index in range(workers)]
    unseen = list(batches(HELD_OUT, worker=77, signal=3.0))
    cases: list[dict[str, Any]] = [{"case": "sync", "rounds": train_in_step(data, unseen)}]
    for k in k_steps:
        cases += [{"case": rule, "k_steps": k, "rounds": train(rule, data, k, unseen)} for rule in RULES]
    table = Table(title=f"{workers} workers in turns, {steps} steps each")
    for header in ("rule", "k", "loss", "AUC", "worst loss after half of the rounds"):
        table.add_column(header)
    for case in cases:
        rounds = case["rounds"]
        worst = max(one["loss"] for one in rounds[len(rounds) // 2 :])
        last = rounds[-1]
        table.add_row(
            case["case"], str(case.get("k_steps", "")), f"{last['loss']:.4f}", f"{last['AUC']:.4f}", f"{worst:.4f}"
        )
    Console().print(table)
    if path is not None:
        write_results(path, cases, workers=workers, steps=steps, batch_size=batch_size)


if __name__ == "__main__":
    main()
