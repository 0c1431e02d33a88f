"""One GPU: ResNet-50 and BERT-base through Fleet with `strategy.auto`, against the same tuned by hand.

    python benchmarks/gpu.py --json benchmarks/results/gpu.json --baseline PEERS/gpu/baseline.py --two-ranks

A process for each of two models and each side (by hand; by Fleet over NCCL with one worker, as `strategy.auto` has it
and with more time to search for kernels) is started and compiled side by side with the others; then they take turns on
the GPU in another order each round. A round's figure is batch size / median step between CUDA events, the batch staying
on the GPU. `--baseline` also runs a script that measures hand-written PyTorch its own way, once all this is over.
`--two-ranks` checks that two workers on this GPU, over Gloo, train the same weights as one process. `--kernels FOLDER`
has every process write what its kernels take.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import torch
from harness import versions, write_results
from live import Figures, take_turns
from peers import Command, run
from rich.console import Console
from rich.table import Table

SCRIPTS = Path(__file__).parent / "scripts"
OURS, BY_HAND = "fleet", "by hand"
SIDES: dict[str, Command] = {
    OURS: [SCRIPTS / "gpu_fleet.py"],
    "fleet, long": [SCRIPTS / "gpu_fleet.py", "--kernel-search", "long"],
    "fleet, long, graphs": [SCRIPTS / "gpu_fleet.py", "--kernel-search", "long", "--mode", "reduce-overhead"],
    "fleet, max-autotune": [SCRIPTS / "gpu_fleet.py", "--mode", "max-autotune-no-cudagraphs"],
    BY_HAND: [SCRIPTS / "gpu_torch.py"],
    "by hand, TF32": [SCRIPTS / "gpu_torch.py", "--tf32"],
}
USUAL = (OURS, "fleet, long", BY_HAND)
"""The sides that are compared unless it is said otherwise."""
MODELS = ("resnet50", "bert")
IN_BASELINE = {
    "resnet50": {"eager": "resnet50 eager fp32", "tuned": "resnet50 bf16 channels_last compiled"},
    "bert": {"eager": "bert-base s128 eager fp32", "tuned": "bert-base s128 bf16 sdpa compiled"},
}
"""What the baseline script calls the work of a beginner and of an expert."""
BASELINE_LIMIT_S = 400.0
TOLERANCE = 1e-4


def run_baseline(script: Path, folder: Path) -> dict[str, Any]:
    """Everything that the baseline script measured, by its own names."""
    command = [sys.executable, str(script.absolute())]
    environ = {**os.environ, "OUT": str(folder)}
    try:
        subprocess.run(command, cwd=folder, env=environ, stdout=sys.stderr, check=True, timeout=BASELINE_LIMIT_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return {"error": type(error).__name__}  # what was measured before is not lost for it
    figures: dict[str, Any] = json.loads((folder / "baseline.json").read_text())
    return figures


def two_ranks(folder: Path) -> dict[str, Any]:
    """How far two workers that share a GPU end from one process, relative to the weights."""
    where: Command = ["--gpus", "0"] if torch.cuda.is_available() else ["--device", "cpu"]
    launcher: Command = [sys.executable, "-m", "fleet.launch", "--quiet", "--nproc_per_node", "2"]
    run([*launcher, *where, "--log_dir", folder / "log", SCRIPTS / "gpu_two_ranks.py", "--out", folder], folder)
    workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(2)]
    difference = max(worker["difference"] for worker in workers)
    return {
        "case": "two ranks on one GPU against one process",
        "device": workers[0]["device"],
        "largest_relative_difference": difference,
        "goal": TOLERANCE,
        "equal": difference <= TOLERANCE < workers[0]["moved"],
    }


def cases_of(model: str, found: Mapping[str, list[Figures]], baseline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One record for each side that got through every round, then the baseline script's."""
    runs = {side: found[name] for side in SIDES if (name := f"{model}, {side}") in found}
    rounds = max(map(len, runs.values()), default=0)
    rates = {side: [run["items_per_s"] for run in mine] for side, mine in runs.items() if mine and len(mine) == rounds}
    hand = rates.get(BY_HAND, [])
    cases: list[dict[str, Any]] = []
    for side, raw in rates.items():
        case = {
            "case": f"{model}, {side}",
            "raw_items_per_s": raw,
            "median_items_per_s": statistics.median(raw),
            "memory_bytes": runs[side][-1]["memory_bytes"],
        }
        if hand:
            case["over_by_hand"] = statistics.median(raw) / statistics.median(hand)
            case["over_by_hand_by_round"] = statistics.median(a / b for a, b in zip(raw, hand, strict=True))
        cases.append(case)
    for skill, name in IN_BASELINE[model].items():
        if isinstance(baseline.get(name), int | float):  # the script puts the error there when one fails
            cases.append({"case": f"{model}, baseline, {skill}", "median_items_per_s": baseline[name]})
    return cases


def show(cases: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title=torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU: this measures nothing")
    table.add_column("contestant")
    for header in ("items/s", "least", "most", "it / by hand", "by round", "GB"):
        table.add_column(header, justify="right")
    for case in cases:
        raw = case.get("raw_items_per_s", [case["median_items_per_s"]])
        rates = [f"{value:,.1f}" for value in (case["median_items_per_s"], min(raw), max(raw))]
        ratios = [f"{case[name]:.3f}" if name in case else "" for name in ("over_by_hand", "over_by_hand_by_round")]
        memory = f"{case['memory_bytes'] / 1e9:.1f}" if "memory_bytes" in case else ""
        table.add_row(case["case"], *rates, *ratios, memory)
    Console().print(table)


@click.command()
@click.option("--rounds", default=7, show_default=True, help="How often each contestant is measured.")
@click.option("--limit", default=math.inf, help="Seconds after which no round begins.")
@click.option("--quick", is_flag=True, help="Two rounds: does it work at all?")
@click.option("--model", "models", type=click.Choice(MODELS), multiple=True, default=MODELS, help="May be repeated.")
@click.option("--side", "sides", type=click.Choice(list(SIDES)), multiple=True, default=USUAL, help="May be repeated.")
@click.option("--only", multiple=True, help="'MODEL, SIDE'; may be repeated. Default: every side of every model.")
@click.option("--batch-size", type=int, help="Another batch size, to try this where there is little memory.")
@click.option("--kernels", type=click.Path(path_type=Path, file_okay=False), help="Write the time of kernels there.")
@click.option("--baseline", type=click.Path(path_type=Path, exists=True), help="A script to run beside; see above.")
@click.option("--two-ranks", "with_two_ranks", is_flag=True, help="Also check two workers on this GPU.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    rounds: int,
    limit: float,
    quick: bool,
    models: tuple[str, ...],
    sides: tuple[str, ...],
    only: tuple[str, ...],
    batch_size: int | None,
    kernels: Path | None,
    baseline: Path | None,
    with_two_ranks: bool,
    path: Path | None,
) -> None:
    rounds = 2 if quick else rounds
    size = [] if batch_size is None else ["--batch-size", str(batch_size)]
    profile: Command = [] if kernels is None else ["--kernels", kernels.absolute()]
    with TemporaryDirectory() as folder:
        checked = [two_ranks(Path(folder))] if with_two_ranks else []
        for case in checked:
            Console().print(f"{case['case']}: {case['largest_relative_difference']:.1e}, at most {case['goal']:.0e}")
        commands: dict[str, Command] = {
            f"{model}, {side}": [sys.executable, *SIDES[side], "--model", model, *size, *profile]
            for model in models
            for side in (SIDES if only else sides)
            if not only or f"{model}, {side}" in only
        }
        found, failures = take_turns(commands, rounds, Path(folder), limit)
        reference = {} if baseline is None else run_baseline(baseline, Path(folder))
    cases = [case for model in models for case in cases_of(model, found, reference)]
    show(cases)
    if path is not None:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        options = [*size, *(["--baseline SCRIPT"] if baseline else []), *(["--two-ranks"] if with_two_ranks else [])]
        write_results(
            path,
            [*cases, *checked],
            command=" ".join(["python benchmarks/gpu.py", f"--rounds {rounds}", *options]),
            versions=versions(("torch-fleet", "torch", "torchvision", "transformers", "numpy")),
            gpu=gpu,
            baseline=reference,
            failures={name: reason.partition("\n")[0] for name, reason in failures.items()},
        )
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")
    if not all(case["equal"] for case in checked):
        raise click.ClickException("two ranks on one GPU do not train as one process does")


if __name__ == "__main__":
    main()
