"""One GPU: how long the first batches take to compile, and what that buys, for each search for kernels and by hand.

    python benchmarks/gpu_warm_up.py --model resnet50 --json benchmarks/results/gpu_warm_up.json

Contestants run alone, one after the other, each with empty caches of its own for compiled code: `fleet, none`, `wide`
and `long` are `strategy.auto` with that `compile_configs.kernel_search`, `by hand` is plain torch.compile. `--again`
starts each a second time with the caches that it has left. A figure is batch size / median step, as in gpu.py.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import torch
from harness import versions, write_results
from live import Contestant
from peers import Command, RunError
from rich.console import Console

from gpu import BY_HAND, MODELS, OURS, SIDES

SEARCHES = ("none", "wide", "long")


def measure(name: str, command: Command, cache: Path, rounds: int) -> dict[str, Any]:
    """Seconds until it was warm, then its rates."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"), "TRITON_CACHE_DIR": str(cache / "triton")}
    with Contestant(name, command, cache, {**os.environ, **caches}) as contestant:
        try:
            warm_up_s = contestant.answer()["warm_up_s"]
            rates = [contestant.measure()["items_per_s"] for _ in range(rounds)]
        except RunError as failure:
            return {"case": name, "error": str(failure).partition("\n")[0]}
    return {
        "case": name,
        "warm_up_s": warm_up_s,
        "raw_items_per_s": rates,
        "median_items_per_s": statistics.median(rates),
    }


def contestants(models: Sequence[str], searches: Sequence[str], with_hand: bool, size: list[str]) -> dict[str, Command]:
    """Their commands by name."""
    found: dict[str, Command] = {}
    for model in models:
        for search in searches:
            command: Command = [sys.executable, *SIDES[OURS], "--model", model, *size, "--kernel-search", search]
            found[f"{model}, {OURS}, {search}"] = command
        if with_hand:
            found[f"{model}, {BY_HAND}"] = [sys.executable, *SIDES[BY_HAND], "--model", model, *size]
    return found


@click.command()
@click.option("--model", "models", type=click.Choice(MODELS), multiple=True, default=MODELS, help="May be repeated.")
@click.option("--search", "searches", type=click.Choice(SEARCHES), multiple=True, default=SEARCHES)
@click.option("--hand/--no-hand", default=True, show_default=True, help="Also plain torch.compile by hand.")
@click.option("--again", is_flag=True, help="Start each a second time with the caches that it has left.")
@click.option("--rounds", default=5, show_default=True, help="How often the rate is measured.")
@click.option("--batch-size", type=int, help="Another batch size, to try this where there is little memory.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    models: tuple[str, ...],
    searches: tuple[str, ...],
    hand: bool,
    again: bool,
    rounds: int,
    batch_size: int | None,
    path: Path | None,
) -> None:
    size = [] if batch_size is None else ["--batch-size", str(batch_size)]
    console = Console()
    cases = []
    for name, command in contestants(models, searches, hand, size).items():
        with TemporaryDirectory() as cache:
            for start in ("", ", started again")[: 1 + again]:
                case = measure(f"{name}{start}", command, Path(cache), rounds)
                cases.append(case)
                rate = case.get("error") or f"{case['warm_up_s']:.0f} s, {case['median_items_per_s']:,.0f}/s"
                console.print(f"{case['case']}: {rate}", markup=False)
    if path is not None:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        found = versions(("torch-fleet", "torch", "torchvision", "transformers", "numpy"))
        write_results(path, cases, command="python benchmarks/gpu_warm_up.py", versions=found, gpu=gpu)


if __name__ == "__main__":
    main()
