"""A click model on one GPU: its table in host memory, with and without a cache of hot rows on the GPU.

    python benchmarks/gpu_ctr.py --json benchmarks/results/gpu_ctr.json

CTR-DNN (26 slots, rows of 10 by Adagrad, three layers of 400 by Adam), 26 million rows, one worker, synchronous: the
table in the worker's process, with the cache off and on, without and with `strategy.cuda_graphs`, and beside it torch
with all rows in GPU memory, which is the ceiling. The processes are started and filled side by side, then take turns
on the GPU in another order each round. A round is `--steps` batches of each size, from pinned memory, that nobody has
trained on before; `parts_ms` is what the main thread did in a step, `of them` what Fleet did, partly in a thread beside
it, and `cache.*` how many rows. Losses of the warm-up, in which the cache fills and begins to evict, are compared bit
by bit.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import torch
from harness import versions, write_results
from live import Figures, take_turns
from peers import Command
from rich.console import Console
from rich.table import Table

SCRIPTS = Path(__file__).parent / "scripts"
GOALS = {(False, "16384"): 1e6, (False, "1000"): 250e3, (True, "16384"): 3e6}
"""Samples per second, with or without a cache, by batch size."""
EXACT = (
    ("fleet", "fleet, cache"),
    ("fleet, dense here", "fleet, cache, dense here"),
    ("fleet, dense here, graphs", "fleet, cache, dense here, graphs"),
)
"""Whose losses must be the same bits: pairs with the same home of the dense parameters, run in the same way."""


def commands_of(
    rows: int, given: Sequence[object], share: float, sizes: Sequence[int], only: Sequence[str]
) -> dict[str, Command]:
    common = list(map(str, [*given, "--rows", rows, "--batch-sizes", *sizes]))
    ours: Command = [sys.executable, SCRIPTS / "gpu_ctr_fleet.py", *common]
    cache = ["--cache-rows", str(int(rows * share))]
    found: dict[str, Command] = {
        "fleet": ours,
        "fleet, cache": [*ours, *cache],
        "fleet, dense here": [*ours, "--dense", "allreduce"],
        "fleet, cache, dense here": [*ours, *cache, "--dense", "allreduce"],
        "fleet, graphs": [*ours, "--graphs"],
        "fleet, dense here, graphs": [*ours, "--dense", "allreduce", "--graphs"],
        "fleet, cache, dense here, graphs": [*ours, *cache, "--dense", "allreduce", "--graphs"],
        "fleet, async": [*ours, "--mode", "async"],
        "torch": [sys.executable, SCRIPTS / "gpu_ctr_torch.py", *common],
    }
    return {name: command for name, command in found.items() if not only or name in only}


def cases_of(found: Mapping[str, list[Figures]]) -> list[dict[str, Any]]:
    cases = []
    for name, rounds in found.items():
        if not rounds:
            continue
        for size in rounds[0]["by_batch"]:
            raw = [one["by_batch"][size]["samples_per_s"] for one in rounds]
            case = {
                "case": name,
                "batch_size": int(size),
                "raw_samples_per_s": raw,
                "median_samples_per_s": statistics.median(raw),
                "parts_ms": rounds[-1]["by_batch"][size]["parts_ms"],
                "auc": rounds[-1]["auc"],
                "losses_crc": rounds[-1]["losses_crc"],
                "gpu_memory_bytes": rounds[-1]["memory_bytes"],
            }
            if name != "torch" and ("cache" in name, size) in GOALS:
                case["goal"] = GOALS["cache" in name, size]
            cases.append(case)
    return cases


def show(cases: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title=torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU: this measures nothing")
    for header in ("contestant", "batch", "samples/s", "least", "most", "goal", "AUC", "losses", "parts, ms a step"):
        table.add_column(header, justify="left" if header in ("contestant", "parts, ms a step") else "right")
    for case in cases:
        raw = case["raw_samples_per_s"]
        rates = [f"{value:,.0f}" for value in (case["median_samples_per_s"], min(raw), max(raw))]
        goal = f"{case['goal']:,.0f}" if "goal" in case else ""
        parts = ", ".join(f"{name} {value:.2f}" for name, value in case["parts_ms"].items())
        exact = f"{case['losses_crc']:08x}"
        table.add_row(case["case"], str(case["batch_size"]), *rates, goal, f"{case['auc']:.4f}", exact, parts)
    Console(width=220).print(table)


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each contestant is measured.")
@click.option("--steps", default=40, show_default=True, help="Batches in a round, of each size.")
@click.option("--warm-up", default=100, show_default=True, help="Batches before, of each size.")
@click.option("--rows", default=26_000_000, show_default=True, help="Of the table.")
@click.option("--share", default=0.1, show_default=True, help="Of the rows, that the cache has.")
@click.option("--batch-size", "sizes", type=int, multiple=True, default=(1_000, 16_384), help="May be repeated.")
@click.option("--only", multiple=True, help="A contestant; may be repeated. Default: all.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    rounds: int,
    steps: int,
    warm_up: int,
    rows: int,
    share: float,
    sizes: tuple[int, ...],
    only: tuple[str, ...],
    path: Path | None,
) -> None:
    os.environ.setdefault("FLEET_NATIVE_THREADS", str(len(os.sched_getaffinity(0))))
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # torch asks at every step whether there is a GPU
    common = ["--steps", steps, "--rounds", rounds, "--warm-up", warm_up]
    with TemporaryDirectory() as folder:
        found, failures = take_turns(commands_of(rows, common, share, sizes, only), rounds, Path(folder))
    cases = cases_of(found)
    show(cases)
    if path is not None:
        write_results(
            path,
            cases,
            command=(
                f"python benchmarks/gpu_ctr.py --rounds {rounds} --steps {steps} --warm-up {warm_up} --rows {rows} "
                f"--share {share}"
            ),
            versions=versions(("torch-fleet", "torch", "numpy")),
            gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            failures={name: reason.partition("\n")[0] for name, reason in failures.items()},
        )
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")
    if any(len({case["losses_crc"] for case in cases if case["case"] in pair}) > 1 for pair in EXACT):
        raise click.ClickException("the losses with a cache are not those without")


if __name__ == "__main__":
    main()
