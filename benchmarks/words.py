"""What training in the words of PaddlePaddle costs above plain torch: small networks, at batch 1, on the CPU.

    python benchmarks/words.py --json benchmarks/results/words.json

A step is forward, backward, the optimizer and clearing gradients, written twice: in `paddle.*` words and in torch. Both
start from the same weights and see the same sample, and their losses after a few steps must be the same. They take
turns, round by round, in one process with one thread; times are those of the processor, and the ratio is the median of
the rounds' ratios. torch's optimizers are made as most people make them: Adam without `fused=True`, which the words ask
for on the CPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import torch
from harness import write_results
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.nn import functional

import paddle
from fleet_paddle import dygraph
from fleet_paddle.imperative import nn  # what paddle.nn is, for a type checker
from paddle import fluid

Step = Callable[[], torch.Tensor]

RATE = 0.01
FIELDS, IDS, WIDTH = 26, 1000, 8


@dataclass(frozen=True)
class Case:
    """A network in both words, and what it sees."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], torch.nn.Module]
    sample: tuple[torch.Tensor, ...]
    label: torch.Tensor | None = None
    is_older: bool = False
    """Whether it is written in the words of 1.8."""


class PaddleCnn(nn.Layer):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = paddle.nn.Conv2D(1, 8, 3, padding=1)
        self.second = paddle.nn.Conv2D(8, 8, 3, padding=1)
        self.pool = paddle.nn.MaxPool2D(2, 2)
        self.last = paddle.nn.Linear(8 * 7 * 7, 10)

    def forward(self, x: Any) -> Any:
        x = self.pool(paddle.nn.functional.relu(self.first(x)))
        x = self.pool(paddle.nn.functional.relu(self.second(x)))
        return self.last(paddle.flatten(x, 1))


class TorchCnn(torch.nn.Module):
    """The same."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.pool = torch.nn.MaxPool2d(2, 2)
        self.last = torch.nn.Linear(8 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(functional.relu(self.first(x)))
        x = self.pool(functional.relu(self.second(x)))
        result: torch.Tensor = self.last(torch.flatten(x, 1))
        return result


class PaddleDeepFm(nn.Layer):
    """A factorization machine beside a tower of three layers, over 26 fields."""

    def __init__(self) -> None:
        super().__init__()
        self.first = paddle.nn.Embedding(IDS, 1)
        self.rows = paddle.nn.Embedding(IDS, WIDTH)
        sizes = [FIELDS * WIDTH, 64, 32, 1]
        self.tower = [paddle.nn.Linear(*pair) for pair in pairwise(sizes)]
        for index, layer in enumerate(self.tower):
            self.add_sublayer(f"tower_{index}", layer)

    def forward(self, ids: Any) -> Any:
        rows = self.rows(ids)
        summed_square = paddle.square(paddle.sum(rows, 1))
        square_summed = paddle.sum(paddle.square(rows), 1)
        pairs = 0.5 * paddle.sum(summed_square - square_summed, 1, keepdim=True)
        x = paddle.reshape(rows, [-1, FIELDS * WIDTH])
        for layer in self.tower[:-1]:
            x = paddle.nn.functional.relu(layer(x))
        return paddle.sum(self.first(ids), 1) + pairs + self.tower[-1](x)


class TorchDeepFm(torch.nn.Module):
    """The same."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Embedding(IDS, 1)
        self.rows = torch.nn.Embedding(IDS, WIDTH)
        sizes = [FIELDS * WIDTH, 64, 32, 1]
        self.tower = [torch.nn.Linear(*pair) for pair in pairwise(sizes)]
        for index, layer in enumerate(self.tower):
            self.add_module(f"tower_{index}", layer)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.rows(ids)
        summed_square = torch.square(torch.sum(rows, 1))
        square_summed = torch.sum(torch.square(rows), 1)
        pairs = 0.5 * torch.sum(summed_square - square_summed, 1, keepdim=True)
        x = torch.reshape(rows, [-1, FIELDS * WIDTH])
        for layer in self.tower[:-1]:
            x = functional.relu(layer(x))
        result: torch.Tensor = torch.sum(self.first(ids), 1) + pairs + self.tower[-1](x)
        return result


class OlderNet(dygraph.Layer):
    """Three layers in the words of 1.8."""

    def __init__(self) -> None:
        super().__init__()
        self.first = fluid.dygraph.Linear(32, 64, act="relu")
        self.second = fluid.dygraph.Linear(64, 64, act="relu")
        self.last = fluid.dygraph.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        return self.last(self.second(self.first(x)))


def _mlp(kind: Any, active: Any) -> Callable[[], Any]:
    sizes = [32, 64, 64, 10]
    home: Any = paddle.nn if kind is paddle.nn.Linear else torch.nn
    return lambda: home.Sequential(
        kind(sizes[0], sizes[1]), active(), kind(sizes[1], sizes[2]), active(), kind(sizes[2], sizes[3])
    )


def cases() -> list[Case]:
    """The networks."""
    torch.manual_seed(0)
    rows, image = torch.randn(1, 32), torch.randn(1, 1, 28, 28)
    words, label = torch.randn(1, 10, 32), torch.tensor([3])
    ids = torch.randint(IDS, (1, FIELDS))
    ours, theirs = paddle.nn, torch.nn
    return [
        Case("Linear", lambda: ours.Linear(32, 10), lambda: theirs.Linear(32, 10), (rows,)),
        Case("Conv2D", lambda: ours.Conv2D(1, 8, 3), lambda: theirs.Conv2d(1, 8, 3), (image,)),
        Case("Embedding", lambda: ours.Embedding(IDS, WIDTH), lambda: theirs.Embedding(IDS, WIDTH), (ids,)),
        Case("LayerNorm", lambda: ours.LayerNorm(32), lambda: theirs.LayerNorm(32), (rows,)),
        Case("LSTM", lambda: ours.LSTM(32, 32), lambda: theirs.LSTM(32, 32, batch_first=True), (words,)),
        Case("3 layers", _mlp(ours.Linear, ours.ReLU), _mlp(theirs.Linear, theirs.ReLU), (rows,), label),
        Case("3 layers, 1.8", OlderNet, _mlp(theirs.Linear, theirs.ReLU), (rows,), label, is_older=True),
        Case("small CNN", PaddleCnn, TorchCnn, (image,), label),
        Case("DeepFM", PaddleDeepFm, TorchDeepFm, (ids,), torch.ones(1, 1)),
    ]


def steps(case: Case, adam: bool) -> tuple[Step, Step]:
    """A step of each, from the same weights."""
    layer, module = case.ours(), case.theirs()
    turned = {id(one.weight) for one in module.modules() if isinstance(one, torch.nn.Linear)}
    with torch.no_grad():
        for one, other in zip(layer.parameters(), module.parameters(), strict=True):
            other.copy_(one.t() if id(other) in turned else one)
    given = [paddle.to_tensor(one) for one in case.sample]
    label = None if case.label is None else paddle.to_tensor(case.label)
    kind = paddle.optimizer.Adam if adam else paddle.optimizer.SGD
    own_optimizer = kind(learning_rate=RATE, parameters=layer.parameters())
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(module.parameters(), lr=RATE)

    older = fluid.optimizer.Adam if adam else fluid.optimizer.SGD
    older_optimizer: Any = older(RATE, parameter_list=layer.parameters()) if case.is_older else None

    def in_older_words() -> torch.Tensor:
        classes = paddle.reshape(label, [-1, 1])
        loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(layer(*given), classes))
        loss.backward()
        older_optimizer.minimize(loss)
        layer.clear_gradients()
        result: torch.Tensor = loss
        return result

    def ours() -> torch.Tensor:
        made = layer(*given)
        made = made[0] if isinstance(made, tuple) else made
        if label is None:
            loss = paddle.mean(made)
        elif label.dtype == paddle.int64:
            loss = paddle.nn.functional.cross_entropy(made, label)
        else:
            loss = paddle.nn.functional.binary_cross_entropy_with_logits(made, label)
        loss.backward()
        own_optimizer.step()
        own_optimizer.clear_grad()
        result: torch.Tensor = loss
        return result

    def theirs() -> torch.Tensor:
        made = module(*case.sample)
        made = made[0] if isinstance(made, tuple) else made
        if case.label is None:
            loss = torch.mean(made)
        elif case.label.dtype == torch.int64:
            loss = functional.cross_entropy(made, case.label)
        else:
            loss = functional.binary_cross_entropy_with_logits(made, case.label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return (in_older_words if case.is_older else ours), theirs


def forwards(case: Case) -> tuple[Step, Step]:
    """A call of each network, gradients recorded."""
    layer, module, given = case.ours(), case.theirs(), [paddle.to_tensor(one) for one in case.sample]
    return (lambda: layer(*given)), (lambda: module(*case.sample))


def seconds(step: Step, number: int) -> float:
    """The processor time of one step, over `number` of them: a machine that others use does not change it much."""
    begun = time.process_time()
    for _ in range(number):
        step()
    return (time.process_time() - begun) / number


def measure(case: Case, rounds: int, number: int, adam: bool) -> dict[str, Any]:
    """Both in turns; losses must agree, or they would not have done the same."""
    ours, theirs = steps(case, adam)
    for _ in range(5):
        own, other = ours(), theirs()
    torch.testing.assert_close(torch.Tensor.detach(own).reshape(()), other.detach(), rtol=1e-3, atol=1e-5)
    step, forward = in_turns(ours, theirs, rounds, number), in_turns(*forwards(case), rounds, number)
    return {
        "network": case.name,
        "optimizer": "Adam" if adam else "SGD",
        **step,
        **{f"forward_{name}": value for name, value in forward.items()},
    }


def in_turns(ours: Step, theirs: Step, rounds: int, number: int) -> dict[str, Any]:
    """Both, round by round; who is first changes."""
    own_s, other_s, ratios = [], [], []
    for turn in range(rounds):
        first = seconds(ours, number) if turn % 2 else None
        bare = seconds(theirs, number)
        own_s.append(first if first is not None else seconds(ours, number))
        other_s.append(bare)
        ratios.append(own_s[-1] / bare)
    ratios.sort()
    return {
        "us": statistics.median(own_s) * 1e6,
        "torch_us": statistics.median(other_s) * 1e6,
        "ratio": statistics.median(ratios),
        "quartiles": [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]],
    }


@click.command()
@click.option("--rounds", default=21, show_default=True, help="How often both take turns.")
@click.option("--steps", "number", default=100, show_default=True, help="Steps of a turn.")
@click.option("--note", default="", help="A sentence about the machine for the results.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the results there.")
def main(rounds: int, number: int, note: str, path: Path | None) -> None:
    """Measure, print a table, and write the results if asked."""
    torch.set_num_threads(1)
    todo = [(case, adam) for adam in (False, True) for case in cases()]
    each = track(todo, "networks", console=Console(stderr=True))
    found = [measure(case, rounds, number, adam) for case, adam in each]
    table = Table("network", "optimizer", "us", "torch us", "ratio", "quartiles", "forward ratio", "quartiles")
    for one in found:
        cells = [f"{one['us']:,.0f}", f"{one['torch_us']:,.0f}"]
        for part in ("", "forward_"):
            low, high = one[f"{part}quartiles"]
            cells += [f"{one[f'{part}ratio']:.3f}", f"{low:.3f}-{high:.3f}"]
        table.add_row(one["network"], one["optimizer"], *cells)
    Console().print(table)
    if path is not None:
        write_results(path, found, rounds=rounds, steps=number, **({"note": note} if note else {}))


if __name__ == "__main__":
    main()
