"""Training on 2 CPU ranks, one thread each, against the systems one would pick instead: an MLP and a small transformer.

    python benchmarks/collective.py --json benchmarks/results/collective.json \\
        --peers-python accelerate=PYTHON --peers-python fabric=PYTHON --peers-python paddle=PYTHON

MLP 1024-4096-4096-10, batch 256 per rank, SGD; transformer of 4 layers, width 256, sequence 64, batch 16 per rank,
AdamW. The systems take turns in another order each round. Quoted are medians, and Fleet's ratio to each system twice:
of the medians, and the median of the rounds' ratios, which a slow quarter of an hour moves less. Without
`--peers-python` Fleet meets hand-written DDP alone; without the folder of `--peers-scripts`, on the transformer only.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from harness import write_results
from peers import version
from rich.console import Console
from rich.table import Table
from systems import MODELS, MODULES, Contestant, Figures, contestants
from turns import pythons_option, scripts_option, take_turns

OURS = "fleet"
SEPARATOR = ", "


def cases_of(model: str, found: Mapping[str, Sequence[Figures]]) -> list[dict[str, Any]]:
    """One record per system that got through every round, with Fleet's ratio to it."""
    raw = {system: [figures.samples_per_s for figures in runs] for system, runs in found.items() if runs}
    ours = raw.get(OURS, [])
    cases = []
    for system, rates in raw.items():
        median = statistics.median(rates)
        case = {
            "case": f"{model}{SEPARATOR}{system}",
            "raw_samples_per_s": rates,
            "median_samples_per_s": median,
            "loss": found[system][-1].loss,
        }
        if ours:
            case["ours_over_this"] = statistics.median(ours) / median
            # Runs of one round lie close together in time; a system that failed half-way has fewer of them.
            case["ours_over_this_by_round"] = statistics.median(a / b for a, b in zip(ours, rates, strict=False))
        cases.append(case)
    return cases


def show(model: str, cases: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title=f"{model}, 2 ranks, one thread each")
    table.add_column("system")
    for header in ("samples/s", "least", "most", "fleet / it", "by round", "loss"):
        table.add_column(header, justify="right")
    for case in cases:
        raw = case["raw_samples_per_s"]
        rates = [f"{value:,.1f}" for value in (case["median_samples_per_s"], min(raw), max(raw))]
        ratios = [f"{case[name]:.3f}" if name in case else "" for name in ("ours_over_this", "ours_over_this_by_round")]
        loss = "" if case["loss"] is None else f"{case['loss']:.4f}"
        table.add_row(case["case"].partition(SEPARATOR)[2], *rates, *ratios, loss)
    Console().print(table)


@click.command()
@click.option("--rounds", default=7, show_default=True, help="How often each system trains each model.")
@click.option("--steps", default=20, show_default=True, help="Timed steps of a run, after 5 that are not.")
@click.option("--model", "models", type=click.Choice(MODELS), multiple=True, default=MODELS, help="May be repeated.")
@click.option("--only", multiple=True, metavar="SYSTEM", help="Leave out all other systems. May be repeated.")
@pythons_option(MODULES)
@scripts_option
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    rounds: int,
    steps: int,
    models: tuple[str, ...],
    only: tuple[str, ...],
    pythons: dict[str, Path],
    scripts: Path,
    path: Path | None,
) -> None:
    chosen: dict[str, Contestant] = {}
    for model in models:
        for system, contestant in contestants(model, steps, pythons, scripts.absolute()).items():
            if not only or system in only:
                chosen[f"{model}{SEPARATOR}{system}"] = contestant
    if not chosen:
        raise click.UsageError(f"--only {only[0]} is no system that can run here")
    versions = {system: version(MODULES[system], python) for system, python in pythons.items()}

    found, failures = take_turns(chosen, rounds)
    cases = []
    for model in models:
        start = f"{model}{SEPARATOR}"
        of_model = cases_of(
            model, {name.removeprefix(start): runs for name, runs in found.items() if name.startswith(start)}
        )
        show(model, of_model)
        cases += of_model
    if path is not None:
        # Where the Pythons lie on this machine is nobody's business.
        options = [
            *(f"--model {model}" for model in models if models != MODELS),
            *(f"--only {system}" for system in only),
            *(f"--peers-python {system}=PYTHON" for system in pythons),
        ]
        command = " ".join(["python benchmarks/collective.py", f"--rounds {rounds}", f"--steps {steps}", *options])
        reasons = {name: reason.partition("\n")[0] for name, reason in failures.items()}
        write_results(path, cases, command=command, peers=versions, failures=reasons)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
