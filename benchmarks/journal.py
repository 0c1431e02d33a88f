"""What does a journal cost? CTR-DNN on 2 servers and 2 workers, with each policy in turn with none at all.

    python benchmarks/journal.py --json benchmarks/results/journal.json

Quoted are medians of samples per second, and the ratio to the same job without a journal.
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import click
from harness import write_results
from peers import BIN, Command, run
from rich.console import Console
from rich.table import Table
from turns import take_turns

SCRIPT = Path(__file__).parent / "scripts" / "ctr_fleet.py"
POLICIES = ("off", "os", "interval", "always")
MODES = ("async", "sync")
Result = tuple[float, float]
"""Samples per second, and bytes of all journals for each step of one worker."""


def train(mode: str, policy: str, folder: Path) -> Result:
    """Run the job once."""
    job: Command = [BIN / "fleetrun", "--server_num", "2", "--worker_num", "2", "--log_dir", folder / "log"]
    if policy != "off":
        job += ["--durable", folder / "durable", "--journal", policy]
    run([*job, SCRIPT, "--mode", mode, "--out", folder], folder)
    workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(2)]
    seconds = max(worker["end"] for worker in workers) - min(worker["begin"] for worker in workers)
    journals = [journal for journal in workers[0]["journals"] if journal is not None]
    pushes = max((journal["record"] for journal in journals), default=1)
    written = sum(journal["bytes"] for journal in journals) / (pushes if mode == "async" else 2 * pushes)
    return sum(worker["samples"] for worker in workers) / seconds, written


@click.command()
@click.option("--rounds", default=7, show_default=True, help="How often each policy is run, in each mode.")
@click.option("--mode", "modes", type=click.Choice(MODES), multiple=True, help="Only this mode. May be repeated.")
@click.option("--only", "chosen", type=click.Choice(POLICIES[1:]), multiple=True, help="Only this policy, and none.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, modes: tuple[str, ...], chosen: tuple[str, ...], path: Path | None) -> None:
    policies = ("off", *chosen) if chosen else POLICIES
    names = {f"{mode} {policy}": (mode, policy) for mode in modes or MODES for policy in policies}
    found, failures = take_turns({name: partial(train, *one) for name, one in names.items()}, rounds)
    medians = {name: statistics.median(rate for rate, _ in rates) for name, rates in found.items() if rates}
    cases: list[dict[str, Any]] = [
        {
            "case": name,
            "raw_samples_per_s": [rate for rate, _ in found[name]],
            "median_samples_per_s": median,
            "over_no_journal": median / medians[f"{names[name][0]} off"],
            "bytes_per_step": statistics.median(size for _, size in found[name]),
        }
        for name, median in medians.items()
    ]
    table = Table(title="CTR-DNN, 2 servers and 2 workers, batch 1000, one thread a process")
    table.add_column("mode and journal")
    for header in ("samples/s", "least", "most", "ratio to none", "bytes a step"):
        table.add_column(header, justify="right")
    for case in cases:
        raw = case["raw_samples_per_s"]
        rates = [f"{value:,.0f}" for value in (case["median_samples_per_s"], min(raw), max(raw))]
        table.add_row(case["case"], *rates, f"{case['over_no_journal']:.3f}", f"{case['bytes_per_step']:,.0f}")
    Console().print(table)
    if path is not None:
        options = [*(f"--mode {mode}" for mode in modes), *(f"--only {policy}" for policy in chosen)]
        command = " ".join(["python benchmarks/journal.py", f"--rounds {rounds}", *options])
        write_results(path, cases, command=command, failures=failures)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
