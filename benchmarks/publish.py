"""How long until what a job has learned is served, and what does that cost? CTR-DNN on 2 servers and 2 workers.

    python benchmarks/publish.py --json benchmarks/results/publish.json

The job is trained in turns with and without `strategy.publish`; samples per second, and the ratio, are quoted. Beside a
job that publishes, a process follows as `fleet-serve` does: changes go into its table, and a key of each is looked up.
A row is late by the time from the earliest moment at which it can have changed, which is that of the mark before its
batch, to its being in the table; p50 and p99 are over rows, once the first base is there. So they are upper bounds.
`--steps` batches of each worker count; 10 minutes of training are some 20,000 on two cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import peers
from harness import write_results
from peers import BIN, Command, RunError, run
from rich.console import Console
from rich.table import Table
from turns import take_turns

from fleet.stream import StartOverError
from fleet_serve.following.moments import Moments
from fleet_serve.following.stream import follow
from fleet_serve.rows.model import load_model

SCRIPT = Path(__file__).parent / "scripts" / "ctr_fleet.py"
MODES = ("async", "sync")
START_S, END_S = 600.0, 60.0
Result = dict[str, Any]


def train(mode: str, publishes: bool, steps: int, folder: Path) -> Result:
    """Run the job once: samples per second, and with a follower how late rows were."""
    job: Command = [BIN / "fleetrun", "--server_num", "2", "--worker_num", "2", "--log_dir", folder / "log"]
    job += [SCRIPT, "--mode", mode, "--steps", str(steps), "--out", folder]
    follower = None
    if publishes:
        job += ["--publish", folder / "stream"]
        follower = subprocess.Popen([sys.executable, __file__, "--follow", str(folder)])
    peers.LIMIT_S = int(START_S) + steps  # a step of both workers takes less than a second
    try:
        run(job, folder)
        (folder / "over").touch()
        if follower is not None and follower.wait(END_S):
            raise RunError("the follower has failed")
    finally:
        if follower is not None:
            follower.kill()
            follower.wait()
    workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(2)]
    seconds = max(worker["end"] for worker in workers) - min(worker["begin"] for worker in workers)
    late = json.loads((folder / "late.json").read_text()) if publishes else {}
    cpu_s = sum(workers[0]["cpu_s"].values())
    return {"samples_per_s": sum(worker["samples"] for worker in workers) / seconds, "cpu_s": cpu_s, **late}


def follow_job(folder: Path) -> None:
    """Follow until the job is over, and write down how late rows were."""
    stream = follow(str(folder / "stream"), START_S)
    late: list[tuple[float, int]] = []
    num_bases, needs_base, began, cpu_s = 0, True, 0.0, time.process_time()
    while needs_base:
        base = stream.base
        model = load_model(Path(base.folder), folder / "cache", numbers=base.numbers)
        waiting = [0] * len(base.numbers)
        moments, numbers, num_bases, needs_base = Moments(model), list(base.numbers), num_bases + 1, False
        began = began or time.time()
        try:
            while not (folder / "over").exists():
                for batch in stream.batches(numbers, time.monotonic() + 0.5):
                    moments.take(batch)
                    numbers[batch.shard] = batch.number
                    for name, changes in batch.tables.items():
                        if batch.whole == batch.number and len(changes.keys):
                            model.lookup([(name, changes.keys[:1])])
                    waiting[batch.shard] += sum(len(changes.keys) for changes in batch.tables.values())
                    if batch.whole == batch.number:
                        if waiting[batch.shard] and batch.oldest >= began:
                            late.append((time.time() - batch.oldest, waiting[batch.shard]))
                        waiting[batch.shard] = 0
        except StartOverError:
            stream.next_base(numbers, START_S)
            needs_base = True
    seconds, weights = np.array(sorted(late)).T
    share = np.cumsum(weights) / weights.sum()
    found = {f"p{percent}_s": float(seconds[np.searchsorted(share, percent / 100)]) for percent in (50, 99)}
    found["follower_cpu_s"] = time.process_time() - cpu_s
    found |= {"max_s": float(seconds[-1]), "rows": float(weights.sum()), "batches": len(late), "bases": num_bases}
    (folder / "late.json").write_text(json.dumps(found))


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each case is run.")
@click.option("--steps", default=1000, show_default=True, help="Batches of each worker.")
@click.option("--mode", "modes", type=click.Choice(MODES), multiple=True, help="Only this mode. May be repeated.")
@click.option("--follow", "followed", type=click.Path(path_type=Path), hidden=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, modes: tuple[str, ...], followed: Path | None, path: Path | None) -> None:
    if followed is not None:
        follow_job(followed)
        return
    names = {
        f"{mode} {'published' if publishes else 'alone'}": (mode, publishes)
        for mode in modes or MODES
        for publishes in (False, True)
    }
    tasks = {name: partial(train, mode, publishes, steps) for name, (mode, publishes) in names.items()}
    found, failures = take_turns(tasks, rounds)
    rates = {name: [one["samples_per_s"] for one in runs] for name, runs in found.items() if runs}
    cases: list[dict[str, Any]] = []
    table = Table(title="CTR-DNN, 2 servers and 2 workers, batch 1000, every_s=0.5")
    for header in ("case", "samples/s", "least", "most", "ratio", "late p50", "p99", "max"):
        table.add_column(header, justify="right")
    for name, raw in rates.items():
        alone = f"{names[name][0]} alone"
        late = {
            key: statistics.median(one[key] for one in found[name]) if key in found[name][0] else None
            for key in ("p50_s", "p99_s", "max_s", "rows", "batches", "bases")
        }
        median = statistics.median(raw)
        ratio = median / statistics.median(rates[alone]) if alone in rates else None
        cases.append(
            {"case": name, "raw_samples_per_s": raw, "median_samples_per_s": median, "over_alone": ratio, **late}
        )
        shown = [
            f"{value:.3f}" if value is not None else ""
            for value in (ratio, late["p50_s"], late["p99_s"], late["max_s"])
        ]
        table.add_row(name, *(f"{value:,.0f}" for value in (median, min(raw), max(raw))), *shown)
    Console().print(table)
    if path is not None:
        options = [f"--mode {mode}" for mode in modes]
        command = " ".join(["python benchmarks/publish.py", f"--rounds {rounds} --steps {steps}", *options])
        write_results(path, cases, command=command, failures=failures)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
