"""CTR-DNN on 2 servers and 2 workers against the systems one would pick instead: same bytes, same model, same machine.

    python benchmarks/ctr.py --json benchmarks/results/ctr.json --peers-python torchrec=VENV/bin/python

The contestants take turns; quoted are medians and the ratio of medians. Without `--peers-python` only those that need
nothing but torch are run: DDP, and two processes that share nothing (the ceiling).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from harness import write_results
from peers import ALWAYS, BIN, PEERS, Command, Rate, run, version
from rich.console import Console
from rich.table import Table
from turns import pythons_option, scripts_option, take_turns

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "scripts" / "ctr_fleet.py"
MODES = ("async", "sync", "geo")
STEPS = 120
"""Batches of each worker that count."""
Workers = list[dict[str, Any]]
"""What the workers of one run of ours wrote, by index."""


def ours(
    mode: str,
    runs: list[Workers],
    folder: Path,
    *,
    servers: int = 2,
    workers: int = 2,
    steps: int = STEPS,
    more: Sequence[str] = (),
    before: Sequence[str] = (),
) -> float:
    """Train once through fleetrun, with `more` options; the workers' figures are added to `runs`.

    `before` stands before the command: `env FLEET_METRICS=0`, say.
    """
    job: Command = [*before, BIN / "fleetrun", "--server_num", str(servers), "--worker_num", str(workers)]
    script: Command = [SCRIPT, "--mode", mode, "--steps", str(steps), "--out", folder]
    run([*job, "--log_dir", folder / "log", *more, *script], folder)
    found: Workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(workers)]
    runs.append(found)
    seconds = max(worker["end"] for worker in found) - min(worker["begin"] for worker in found)
    return float(sum(worker["samples"] for worker in found) / seconds)


def median_of(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(value[name] for value in values) for name in values[0]}


def inside(runs: Sequence[Workers]) -> dict[str, Any]:
    """Of our own runs: where a batch's time goes (ms, median over runs and workers), CPU, and what was learnt."""
    per_batch = [
        {
            part: 1000 * seconds / worker["batches"]
            for part, seconds in {**worker["parts_s"], **{f"ps.{k}": v for k, v in worker["meters_s"].items()}}.items()
        }
        for workers in runs
        for worker in workers
    ]
    batches = sum(worker["batches"] for worker in runs[0])
    firsts = [workers[0] for workers in runs]
    cpu = median_of([first["cpu_s"] for first in firsts])
    return {
        "ms_per_batch": median_of(per_batch),
        "cpu_s": cpu,
        "cpu_ms_per_batch": {who: 1000 * seconds / batches for who, seconds in cpu.items()},
        "before": median_of([first["before"] for first in firsts]),
        "after": median_of([first["after"] for first in firsts]),
    }


def cases_of(rates: Mapping[str, list[float]], runs: Mapping[str, list[Workers]]) -> list[dict[str, Any]]:
    medians = {name: statistics.median(values) for name, values in rates.items() if values}
    return [
        {
            "case": name,
            "raw_samples_per_s": rates[name],
            "median_samples_per_s": median,
            "ours_over_this": {mine: medians[mine] / median for mine in runs if mine in medians},
            **(inside(runs[name]) if name in runs else {}),
        }
        for name, median in medians.items()
    ]


def show(cases: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """A table of everybody, then what was found inside ours."""
    console = Console()
    table = Table(title="CTR-DNN, 2 workers, batch 1000, one thread a process")
    table.add_column("system")
    for header in ("samples/s", "least", "most", *(f"{name.removeprefix('fleet ')} / it" for name in names)):
        table.add_column(header, justify="right")
    for case in cases:
        raw = case["raw_samples_per_s"]
        rates = [f"{value:,.0f}" for value in (case["median_samples_per_s"], min(raw), max(raw))]
        ratios = [f"{case['ours_over_this'][name]:.2f}" if name in case["ours_over_this"] else "" for name in names]
        table.add_row(case["case"], *rates, *ratios)
    console.print(table)
    for case in cases:
        if "before" in case:
            before, after = case["before"], case["after"]
            parts = ", ".join(f"{part} {ms:.1f}" for part, ms in case["ms_per_batch"].items())
            cpu = ", ".join(f"{who} {ms:.1f}" for who, ms in case["cpu_ms_per_batch"].items())
            console.print(
                f"{case['case']}: loss {before['loss']:.4f} -> {after['loss']:.4f}, "
                f"AUC {before['auc']:.4f} -> {after['auc']:.4f} on unseen batches\n"
                f"  ms a batch: {parts}\n  CPU ms a batch: {cpu}"
            )


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each contestant is run.")
@pythons_option(PEERS)
@scripts_option
@click.option("--only", multiple=True, metavar="TEXT", help="Only contestants whose name contains it. May be repeated.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, pythons: dict[str, Path], scripts: Path, only: tuple[str, ...], path: Path | None) -> None:
    runs: dict[str, list[Workers]] = {f"fleet {mode}": [] for mode in MODES}
    contestants: dict[str, Rate] = {name: partial(ours, name.split()[1], runs[name]) for name in runs}
    if scripts.is_dir():
        contestants |= {name: make(scripts.absolute()) for name, make in ALWAYS.items()}
        for peer, python in pythons.items():
            contestants |= {name: make(scripts.absolute(), python) for name, make in PEERS[peer].contestants.items()}
    elif pythons:
        raise click.UsageError(f"--peers-scripts {scripts} is not a folder; the other systems' scripts are needed")
    chosen = {name: run for name, run in contestants.items() if not only or any(text in name for text in only)}
    if not chosen:
        raise click.UsageError(f"--only {only[0]} fits none of: {', '.join(contestants)}")
    versions = {peer: version(PEERS[peer].module, python) for peer, python in pythons.items()}

    rates, failures = take_turns(chosen, rounds)
    mine = {name: found for name, found in runs.items() if found}
    cases = cases_of(rates, mine)
    show(cases, list(mine))
    if path is not None:
        # Where the Pythons lie on this machine is nobody's business.
        options = [*(f"--only {text!r}" for text in only), *(f"--peers-python {peer}=PYTHON" for peer in pythons)]
        command = " ".join(["python benchmarks/ctr.py", f"--rounds {rounds}", *options])
        reasons = {name: reason.partition("\n")[0] for name, reason in failures.items()}
        write_results(path, cases, command=command, peers=versions, failures=reasons)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
