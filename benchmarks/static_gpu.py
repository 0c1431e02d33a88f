"""ResNet-50 and a BERT encoder as static programs against the same models in torch: how long a step takes.

    python benchmarks/static_gpu.py --json benchmarks/results/static_gpu.json

Each of two ways is compared with its counterpart, in one process and in turns: a program as it is with eager torch, and
one through `torch_compile` with `torch.compile`; a CUDA graph of the program stands beside eager torch. Same weights,
same batch on the device, images channels-last, the optimizer in one kernel (torch: fused). float32 with TF32, or
everything in bfloat16: programs have no mixed precision. `ours_over_torch` is time over time, the median of the rounds;
the goal is at most 1.03.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import click
import torch
from harness import write_results
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

import fleet_programs as static
from fleet.collective.tuning import put_channels_last

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks" / "scripts")]

import static_bert  # noqa: E402
import static_resnet50  # noqa: E402
import static_twins  # noqa: E402

GOAL = 1.03
BATCHES = {"resnet50": 256, "bert": 128}
COUNTERPART = {"plain": "eager", "compiled": "torch.compile", "graph": "eager"}
Step = Callable[[], torch.Tensor]


class Case:
    """One model in one size: its batch, its twin in torch, and its program."""

    def __init__(self, name: str, batch_size: int, dtype: str, device: torch.device, tiny: bool) -> None:
        self.name, self.dtype, self.device = name, dtype, device
        self.example: Any = static_resnet50 if name == "resnet50" else static_bert
        self.size = self.example.TINY if tiny else self.example.Size()
        make = self.example.images if name == "resnet50" else self.example.sentences
        batch = make(batch_size, self.size, 0)
        self.x, self.y = (torch.from_numpy(batch[one]).to(device) for one in "xy")
        if name == "resnet50":
            self.x = self.x.to(getattr(torch, dtype)).contiguous(memory_format=torch.channels_last)
        torch.manual_seed(0)
        self.values = static_twins.values(self._module())

    def _module(self) -> torch.nn.Module:
        if self.name == "resnet50":
            return static_twins.ResNet(self.size.blocks, self.size.width, self.size.num_classes)
        return static_twins.Bert(*astuple(self.size))

    def in_torch(self, is_compiled: bool) -> Step:
        """A step of the twin."""
        torch.manual_seed(0)
        module = self._module().to(self.device, getattr(torch, self.dtype))
        put_channels_last(module)
        fused = self.device.type == "cuda"
        parameters = list(module.parameters())
        optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=fused)
            if self.name == "resnet50"
            else torch.optim.AdamW(parameters, lr=1e-4, fused=fused)
        )
        called = torch.compile(module) if is_compiled else module
        return lambda: static_twins.step_of(called, optimizer, self.x, self.y)  # type: ignore[arg-type]

    def as_program(self, run: str) -> Step:
        """A step of the program; the loss stays on the device."""
        main, startup, scope = static.Program(), static.Program(), static.Scope()
        with static.program_guard(main, startup), static.unique_name.guard(), static.scope_guard(scope):
            loss, _ = self.example.network(self.size, self.dtype)
            rule = static.optimizer.Momentum(1e-3, 0.9) if self.name == "resnet50" else static.optimizer.AdamW(1e-4)
            rule.minimize(loss)
            exe = static.Executor(self.device)
            exe.run(startup)
            static.io.set_program_state(main, self.values)
        for name, tensor in scope.tensors.items():
            if tensor.dim() == 4:
                scope.tensors[name] = tensor.contiguous(memory_format=torch.channels_last)
        program = static_resnet50.compiled(main, run)
        feed = {"x": self.x, "y": self.y}
        return lambda: exe.run(program, feed=feed, fetch_list=[loss], scope=scope, return_numpy=False)[0]


def seconds_of(step: Step, count: int, device: torch.device) -> float:
    """Of one of so many steps, until the device has done them."""
    begun = time.perf_counter()
    for _ in range(count):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - begun) / count


def write_kernels(step: Step, path: Path) -> None:
    """What the kernels of 5 steps take, most first."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    path.parent.mkdir(parents=True, exist_ok=True)
    table = seen.key_averages().table(sort_by="self_device_time_total", row_limit=60, max_name_column_width=100)
    path.write_text(table)


def measure(
    case: Case, runs: tuple[str, ...], rounds: int, steps: int, warm_up: int, kernels: Path | None
) -> list[dict[str, Any]]:
    """All ways in turns; one record for each program."""
    ways: dict[str, Step] = {f"program, {run}": case.as_program(run) for run in runs}
    ways |= {f"torch, {other}": case.in_torch(other != "eager") for other in {COUNTERPART[run] for run in runs}}
    losses = {name: [float(step()) for _ in range(warm_up)] for name, step in ways.items()}
    raw: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, step in ways.items():
            step()
            raw[name].append(seconds_of(step, steps, case.device))
    if kernels is not None and case.device.type == "cuda":
        for name, step in ways.items():
            write_kernels(step, kernels / f"{case.name}, {name}.txt".replace(", ", "-").replace(" ", "_"))
    cases = []
    for run in runs:
        ours, theirs = raw[f"program, {run}"], raw[f"torch, {COUNTERPART[run]}"]
        cases.append(
            {
                "case": f"{case.name}, {run} against {COUNTERPART[run]}",
                "raw_s": ours,
                "raw_torch_s": theirs,
                "median_s": statistics.median(ours),
                "median_torch_s": statistics.median(theirs),
                "ours_over_torch": statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
                "goal": GOAL,
                "losses": losses[f"program, {run}"],
                "torch_losses": losses[f"torch, {COUNTERPART[run]}"],
            }
        )
    return cases


@click.command()
@click.option("--model", "models", type=click.Choice(list(BATCHES)), multiple=True, default=list(BATCHES))
@click.option("--run", "runs", type=click.Choice(list(COUNTERPART)), multiple=True, default=list(COUNTERPART))
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True)
@click.option("--rounds", default=7, show_default=True, help="How often each way is measured.")
@click.option("--steps", default=20, show_default=True, help="Of a round.")
@click.option("--batch-size", type=int, help="[default: 256 images, 128 sentences]")
@click.option("--kernels", type=click.Path(path_type=Path, file_okay=False), help="Write the time of kernels there.")
@click.option("--tiny", is_flag=True, help="Small models, to try this on a CPU: it measures nothing.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    models: tuple[str, ...],
    runs: tuple[str, ...],
    dtype: str,
    rounds: int,
    steps: int,
    batch_size: int | None,
    kernels: Path | None,
    tiny: bool,
    path: Path | None,
) -> None:
    """Compare steps of static programs with those of torch."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    gpu = torch.cuda.get_device_name() if device.type == "cuda" else None
    cases: list[dict[str, Any]] = []
    for model in models:
        case = Case(model, batch_size or (8 if tiny else BATCHES[model]), dtype, device, tiny)
        cases += measure(case, runs, rounds, steps, warm_up=3, kernels=kernels)
        if path is not None:
            write_results(path, cases, gpu=gpu, dtype=dtype, rounds=rounds, steps=steps)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    table = Table(title=f"{gpu or 'CPU'}, {dtype}")
    for header in ("case", "program ms", "torch ms", "program / torch", "goal"):
        table.add_column(header, justify="left" if header == "case" else "right")
    for one in cases:
        times = [f"{1000 * one[name]:,.2f}" for name in ("median_s", "median_torch_s")]
        table.add_row(one["case"], *times, f"{one['ours_over_torch']:.3f}", f"{GOAL}")
    Console().print(table)


if __name__ == "__main__":
    main()
