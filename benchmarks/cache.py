"""A worker's cache of rows: what need not be pulled, what that saves, and what is learnt with rows that are older.

    python benchmarks/cache.py --json benchmarks/results/cache.json

CTR-DNN in async mode with 2 servers and 2 workers, ids by Zipf 1.2, without a cache and with several bounds on the age
of its rows, in turns. Quoted are medians; CPU is that of all processes of a role, divided by the batches.
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import click
from ctr import SCRIPT
from harness import write_results
from peers import BIN, Command, run
from rich.console import Console
from rich.table import Table
from turns import take_turns

NUM_WORKERS = 2


def train(rows: int, staleness: int, zipf: float, folder: Path) -> dict[str, Any]:
    """Train once; what the workers and servers counted."""
    job: Command = [
        BIN / "fleetrun",
        "--server_num",
        "2",
        "--worker_num",
        str(NUM_WORKERS),
        "--log_dir",
        folder / "log",
    ]
    given = ["--zipf", str(zipf), "--cache", str(rows), str(staleness)]
    run([*job, SCRIPT, "--mode", "async", "--out", folder, *given], folder)
    workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(NUM_WORKERS)]
    first = workers[0]
    seconds = max(worker["end"] for worker in workers) - min(worker["begin"] for worker in workers)
    batches = sum(worker["batches"] for worker in workers)
    counts = [worker["counts"] for worker in workers]
    hits = sum(one.get("cache.hits", 0) for one in counts)
    asked = sum(one.get(f"cache.{name}", 0) for one in counts for name in ("misses", "refreshed"))
    return {
        "samples_per_s": sum(worker["samples"] for worker in workers) / seconds,
        "cpu_ms_per_batch": {who: 1000 * spent / batches for who, spent in first["cpu_s"].items()},
        "not_pulled": hits / max(1, hits + asked),
        "mean_age_steps": sum(one.get("cache.age_steps", 0) for one in counts) / max(1, hits),
        "oldest_steps": max(one.get("cache.oldest", 0) for one in counts),
        "after": first["after"],
        "rows_of_servers": first["rows"],
    }


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often each is run.")
@click.option("--rows", default=200_000, show_default=True, help="Of the cache.")
@click.option("--zipf", default=1.2, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, rows: int, zipf: float, path: Path | None) -> None:
    contestants = {"no cache": partial(train, 0, 0, zipf)}
    contestants |= {f"{steps} steps": partial(train, rows, steps, zipf) for steps in (4, 16, 64)}
    found, failures = take_turns(contestants, rounds)
    table = Table(title=f"CTR-DNN, async, 2 + 2, Zipf {zipf}, a cache of {rows:,} rows")
    for header in ("rows at most", "not pulled", "mean age", "samples/s", "CPU ms a batch", "loss", "AUC"):
        table.add_column(header, justify="right")
    cases = []
    for name, each in found.items():
        if not each:
            continue
        cpu = [sum(one["cpu_ms_per_batch"].values()) for one in each]
        median = {
            "not_pulled": statistics.median(one["not_pulled"] for one in each),
            "mean_age_steps": statistics.median(one["mean_age_steps"] for one in each),
            "samples_per_s": statistics.median(one["samples_per_s"] for one in each),
            "cpu_ms_per_batch": statistics.median(cpu),
            "loss": statistics.median(one["after"]["loss"] for one in each),
            "auc": statistics.median(one["after"]["auc"] for one in each),
        }
        cases.append({"case": name, "median": median, "runs": each})
        digits = (".0%", ".1f", ",.0f", ".1f", ".4f", ".4f")
        table.add_row(name, *(f"{value:{how}}" for value, how in zip(median.values(), digits, strict=True)))
    Console().print(table)
    if path is not None:
        write_results(path, cases, zipf=zipf, cache_rows=rows, failures=failures)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
