"""A static program against eager PyTorch on one core, and what `memory_optimize` saves.

    python benchmarks/static.py --json benchmarks/results/static.json

Speed: the MLP of the Fleet guide, batch 128 of 32 features, 128-128-2, softmax loss, SGD 0.01. `exe.run` is given
numpy arrays and gives the loss back as one, at every step; the eager program, which is the usual one (nn.Sequential,
autograd, torch.optim.SGD), has its batch in tensors and keeps its loss there. `by hand` is the same step flattened by
hand. All take turns in one process with one thread. Memory: one step of a convolution program of 20 layers, in a
process of its own each, as the growth of the largest resident size.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from harness import write_results
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn
from torch.nn import functional
from turns import scripts_option

import fleet_programs as static
from fleet_programs import layers

BATCH, WIDTH, HIDDEN, CLASSES, RATE = 128, 32, 128, 2, 0.01
OURS = "fleet, exe.run"
MEMORY_SCRIPT = Path(__file__).parent / "scripts" / "static_memory.py"

Step = Callable[[], object]


def batch() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return rng.random((BATCH, WIDTH), np.float32), rng.integers(0, CLASSES, (BATCH, 1))


def fleet_step() -> Step:
    """The guide's program, run as the guide runs it."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, WIDTH])
        y = static.data("y", [None, 1], "int64")
        hidden = layers.fc(layers.fc(x, HIDDEN, act="tanh"), HIDDEN, act="tanh")
        loss = layers.mean(layers.cross_entropy(layers.fc(hidden, CLASSES, act="softmax"), y))
        static.optimizer.SGD(RATE).minimize(loss)
    exe = static.Executor(static.CPUPlace())
    exe.run(startup)
    xs, ys = batch()
    return lambda: exe.run(main, feed={"x": xs, "y": ys}, fetch_list=[loss.name])


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES)
    )


def eager_step(fused: bool) -> Step:
    """The usual training step of PyTorch."""
    xs, ys = (torch.from_numpy(array) for array in batch())
    labels = ys.view(-1)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, fused=fused or None)

    def step() -> torch.Tensor:
        loss = functional.cross_entropy(net(xs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def hand_step() -> Step:
    """Forward, backward and update written out; no autograd, no loss."""
    xs, ys = (torch.from_numpy(array) for array in batch())
    net = network()
    linear = [module for module in net if isinstance(module, nn.Linear)]
    w1, w2, w3 = (module.weight.detach().t().contiguous() for module in linear)
    b1, b2, b3 = (module.bias.detach().clone() for module in linear)
    onehot, ones = functional.one_hot(ys.view(-1), CLASSES).float(), torch.ones(BATCH)
    h1, h2, d1, d2 = (torch.empty(BATCH, HIDDEN) for _ in range(4))
    z, d3 = torch.empty(BATCH, CLASSES), torch.empty(BATCH, CLASSES)

    @torch.no_grad()
    def step() -> torch.Tensor:
        torch.addmm(b1, xs, w1, out=h1).tanh_()
        torch.addmm(b2, h1, w2, out=h2).tanh_()
        torch.softmax(torch.addmm(b3, h2, w3, out=z), 1, out=d3).sub_(onehot)
        torch.ops.aten.tanh_backward(torch.mm(d3, w3.t(), out=d2), h2, grad_input=d2)
        torch.ops.aten.tanh_backward(torch.mm(d2, w2.t(), out=d1), h1, grad_input=d1)
        for weight, bias, inputs, grad in ((w3, b3, h2, d3), (w2, b2, h1, d2), (w1, b1, xs, d1)):
            weight.addmm_(inputs.t(), grad, alpha=-RATE / BATCH)
            bias.addmv_(grad.t(), ones, alpha=-RATE / BATCH)
        return z

    return step


def steps_per_s(step: Step, count: int) -> float:
    """Steps per second."""
    for _ in range(count // 10):
        step()
    begun = time.perf_counter()
    for _ in range(count):
        step()
    return count / (time.perf_counter() - begun)


def peers_steps_per_s(scripts: Path, how: str, count: int) -> float:
    """What the peers' own script says."""
    command = [sys.executable, str(scripts / "ddp" / "tiny_mlp.py"), how, f"n={count}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return float(said.stdout.split()[0])


def measure_speed(rounds: int, steps: int, scripts: Path) -> list[dict[str, Any]]:
    contestants: dict[str, Callable[[], float]] = {}
    for name, step in {
        OURS: fleet_step(),
        "eager": eager_step(fused=False),
        "eager, fused optimizer": eager_step(fused=True),
        "by hand": hand_step(),
    }.items():
        contestants[name] = lambda step=step: steps_per_s(step, steps)  # type: ignore[misc]
    if (scripts / "ddp" / "tiny_mlp.py").is_file():
        for how in ("eager", "flat"):
            contestants[f"peers' script, {how}"] = lambda how=how: peers_steps_per_s(scripts, how, steps)  # type: ignore[misc]
    raw: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in track(range(rounds), "rounds", console=Console(stderr=True)):
        for name, one in contestants.items():
            raw[name].append(one())
    ours = raw[OURS]
    return [
        {
            "case": f"mlp, {name}",
            "raw_steps_per_s": rates,
            "median_steps_per_s": statistics.median(rates),
            "ours_over_this": statistics.median(ours) / statistics.median(rates),
            "ours_over_this_by_round": statistics.median(a / b for a, b in zip(ours, rates, strict=True)),
        }
        for name, rates in raw.items()
    ]


def measure_memory(rounds: int) -> list[dict[str, Any]]:
    cases = []
    for how in ("plain", "optimized"):
        command = [sys.executable, str(MEMORY_SCRIPT), how]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True, timeout=300) for _ in range(rounds)]
        grown = [int(run.stdout.split()[0]) for run in runs]
        losses = {run.stdout.split()[1] for run in runs}
        median = statistics.median(grown)
        cases.append({"case": f"memory, {how}", "raw_bytes": grown, "median_bytes": median, "loss": sorted(losses)})
    return cases


@click.command()
@click.option("--rounds", default=7, show_default=True, help="How often each contestant runs.")
@click.option("--steps", default=3000, show_default=True, help="Timed steps of a round.")
@scripts_option
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, scripts: Path, path: Path | None) -> None:
    """Compare a static program with eager PyTorch, and a program with its memory-optimized self."""
    torch.set_num_threads(1)
    speed = measure_speed(rounds, steps, scripts)
    table = Table(title="MLP 32-128-128-2, batch 128, SGD, one core")
    table.add_column("program")
    for header in ("steps/s", "least", "most", "fleet / it", "by round"):
        table.add_column(header, justify="right")
    for case in speed:
        raw = case["raw_steps_per_s"]
        rates = [f"{value:,.0f}" for value in (case["median_steps_per_s"], min(raw), max(raw))]
        ratios = [f"{case[name]:.3f}" for name in ("ours_over_this", "ours_over_this_by_round")]
        table.add_row(case["case"].removeprefix("mlp, "), *rates, *ratios)
    Console().print(table)
    memory = measure_memory(min(rounds, 3))
    plain, optimized = (case["median_bytes"] for case in memory)
    Console().print(
        f"20-layer convolution program, one step: {plain / 2**20:,.0f} MiB, with memory_optimize "
        f"{optimized / 2**20:,.0f} MiB: {1 - optimized / plain:.0%} less"
    )
    if path is not None:
        write_results(path, [*speed, *memory])


if __name__ == "__main__":
    main()
