"""What a call of a function costs above torch's own: the functions of `paddle` that are made from rows of operators.

    python benchmarks/calls.py --json benchmarks/results/calls.json

Each call works on a tensor of 8 x 8, so that what is measured is the way to torch and back, not arithmetic. The bare
function of torch and the call take turns, round by round, in one process with one thread; the ratio is that of their
medians. The last rows are layers that add an operator to a program; nothing of torch's compares with them.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from pathlib import Path

import click
import torch
from harness import write_results
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table
from torch.nn import functional

import fleet_programs as static
import paddle
from fleet_programs import layers
from paddle import fluid

Call = Callable[[], object]

CALLS_A_ROUND = 2000
BUILDS_A_ROUND = 200


def calls() -> dict[str, tuple[Call, Call]]:
    """Name -> the call, and torch's own for the same."""
    plain = torch.rand(8, 8) + 0.5
    x = paddle.to_tensor(plain)
    relu = paddle.nn.ReLU()
    return {
        "paddle.nn.functional.relu(x)": (lambda: paddle.nn.functional.relu(x), lambda: torch.relu(plain)),
        "paddle.nn.functional.leaky_relu(x)": (
            lambda: paddle.nn.functional.leaky_relu(x),
            lambda: functional.leaky_relu(plain),
        ),
        "paddle.nn.functional.softmax(x)": (
            lambda: paddle.nn.functional.softmax(x),
            lambda: torch.softmax(plain, -1),
        ),
        "paddle.nn.ReLU()(x)": (lambda: relu(x), lambda: torch.relu(plain)),
        "paddle.exp(x)": (lambda: paddle.exp(x), lambda: torch.exp(plain)),
        "paddle.add(x, x)": (lambda: paddle.add(x, x), lambda: torch.add(plain, plain)),
        "paddle.equal(x, x)": (lambda: paddle.equal(x, x), lambda: torch.eq(plain, plain)),
        "paddle.mean(x, 1)": (lambda: paddle.mean(x, 1), lambda: torch.mean(plain, 1)),
        "paddle.sum(x)": (lambda: paddle.sum(x), lambda: torch.sum(plain)),
        "paddle.matmul(x, x)": (lambda: paddle.matmul(x, x), lambda: torch.matmul(plain, plain)),
        "paddle.reshape(x, [4, 16])": (lambda: paddle.reshape(x, [4, 16]), lambda: torch.reshape(plain, [4, 16])),
        "paddle.concat([x, x])": (lambda: paddle.concat([x, x]), lambda: torch.cat([plain, plain])),
        "fluid.layers.relu(x)": (lambda: fluid.layers.relu(x), lambda: torch.relu(plain)),
        "fluid.layers.elementwise_add(x, x)": (
            lambda: fluid.layers.elementwise_add(x, x),
            lambda: torch.add(plain, plain),
        ),
    }


def built(layer: Callable[[static.Variable], object]) -> Call:
    """Adds a layer to a new program, `BUILDS_A_ROUND` times over."""

    def build() -> None:
        with static.program_guard(static.Program(), static.Program()):
            x = static.data("x", [None, 8])
            for _ in range(BUILDS_A_ROUND):
                layer(x)

    return build


BUILDS: dict[str, Callable[[static.Variable], object]] = {
    "layers.relu(x), a program": layers.relu,
    "layers.elementwise_add(x, x), a program": lambda x: layers.elementwise_add(x, x),
    "layers.reduce_sum(x, 1), a program": lambda x: layers.reduce_sum(x, 1),
}


def nanoseconds(call: Call, number: int) -> float:
    return timeit.timeit(call, number=number) / number * 1e9


@click.command()
@click.option("--rounds", default=15, show_default=True, help="How often each call and torch's take turns.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the results there.")
def main(rounds: int, path: Path | None) -> None:
    """Measure, print a table, and write the results if asked."""
    torch.set_num_threads(1)
    results: dict[str, dict[str, float]] = {}
    pairs = calls()
    for name, (ours, theirs) in track(pairs.items(), "calls", console=Console(stderr=True)):
        found, bare = zip(
            *((nanoseconds(ours, CALLS_A_ROUND), nanoseconds(theirs, CALLS_A_ROUND)) for _ in range(rounds)),
            strict=True,
        )
        own, other = statistics.median(found), statistics.median(bare)
        results[name] = {"ns": own, "min": min(found), "max": max(found), "torch_ns": other, "ratio": own / other}
    for name, layer in BUILDS.items():
        times = [nanoseconds(built(layer), 1) / BUILDS_A_ROUND for _ in range(rounds)]
        results[name] = {"ns": statistics.median(times), "min": min(times), "max": max(times)}
    table = Table("call", "ns", "min-max", "torch ns", "ratio")
    for name, one in results.items():
        other = (f"{one['torch_ns']:,.0f}", f"{one['ratio']:.2f}") if "ratio" in one else ("", "")
        table.add_row(escape(name), f"{one['ns']:,.0f}", f"{one['min']:,.0f}-{one['max']:,.0f}", *other)
    Console().print(table)
    if path is not None:
        write_results(path, [{"call": name, **one} for name, one in results.items()], rounds=rounds)


if __name__ == "__main__":
    main()
