"""Does one slow worker hold an epoch up? Four workers, one of them four times slower, with a queue and without.

    python benchmarks/work_queue.py --json benchmarks/results/queue.json

Work is sleeping: a fixed time for each row. The ideal is all work over the speed of all workers together. Quoted is the
time of an epoch, from the moment that all workers begin to the end of the last, over the ideal.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from harness import write_results
from peers import BIN, Command, run
from rich.console import Console
from rich.table import Table
from turns import take_turns

SCRIPT = Path(__file__).parent / "scripts" / "queue_fleet.py"
NUM_WORKERS, ROWS, ROW_S, SLOWER = 4, 32_500, 0.001, 4.0
IDEAL_S = ROWS * ROW_S / (NUM_WORKERS - 1 + 1 / SLOWER)
LIMIT = 1.15
CASES = {"fixed parts": (), "queue": ("--queue",), "queue, shuffled": ("--queue", "--shuffle")}


def epoch(how: Sequence[str], folder: Path) -> tuple[float, list[int]]:
    """Seconds of one epoch, and how many rows each worker had."""
    data = folder / "rows.tsv"
    data.write_text("".join(f"{row}\t{'x' * 200}\n" for row in range(ROWS)))
    job: Command = [BIN / "fleetrun", "--server_num", "2", "--worker_num", str(NUM_WORKERS), "--device", "cpu"]
    given = ["--data", data, "--row-s", ROW_S, "--slower", SLOWER, "--out", folder, *how]
    run([*job, "--log_dir", folder / "log", SCRIPT, *map(str, given)], folder)
    workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(NUM_WORKERS)]
    if sorted(row for worker in workers for row in worker["rows"]) != list(range(ROWS)):
        raise click.ClickException(f"{' '.join(how)}: not every row was done once")
    seconds = max(worker["end"] for worker in workers) - min(worker["begin"] for worker in workers)
    return seconds, [len(worker["rows"]) for worker in workers]


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often each case is run.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, path: Path | None) -> None:
    found, failures = take_turns({name: partial(epoch, one) for name, one in CASES.items()}, rounds)
    cases: list[dict[str, Any]] = [
        {
            "case": name,
            "raw_s": [seconds for seconds, _ in told],
            "median_s": statistics.median(seconds for seconds, _ in told),
            "over_ideal": statistics.median(seconds for seconds, _ in told) / IDEAL_S,
            "rows_of_workers": [rows for _, rows in told],
        }
        for name, told in found.items()
        if told
    ]
    table = Table(title=f"{NUM_WORKERS} workers, one {SLOWER:g} times slower; the ideal is {IDEAL_S:.1f} s")
    table.add_column("how")
    for header in ("seconds", "least", "most", "over the ideal", "rows of each worker"):
        table.add_column(header, justify="right")
    for case in cases:
        times = [f"{value:.2f}" for value in (case["median_s"], min(case["raw_s"]), max(case["raw_s"]))]
        rows = " ".join(map(str, case["rows_of_workers"][0]))
        table.add_row(case["case"], *times, f"{case['over_ideal']:.3f}", rows)
    Console().print(table)
    if path is not None:
        write_results(path, cases, ideal_s=IDEAL_S, failures=failures)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")
    for case in cases:
        if "queue" in case["case"] and case["over_ideal"] > LIMIT:
            raise click.ClickException(f"{case['case']}: {case['over_ideal']:.3f} of the ideal, more than {LIMIT}")


if __name__ == "__main__":
    main()
