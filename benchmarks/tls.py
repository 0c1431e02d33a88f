"""What TLS between workers and servers costs: CTR-DNN on 2 servers and 2 workers, with and without it, in turns.

python benchmarks/tls.py --json benchmarks/results/tls.json
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path

import click
from ctr import MODES, Workers, inside, ours
from harness import write_results
from peers import Rate
from rich.console import Console
from rich.table import Table
from turns import take_turns


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each is run.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, path: Path | None) -> None:
    """Measure, print a table, and write the results if asked."""
    ways = {"plain": ("--no-tls",), "TLS": ("--tls",)}
    runs: dict[str, list[Workers]] = {f"{mode}, {way}": [] for mode in MODES for way in ways}
    contestants: dict[str, Rate] = {
        f"{mode}, {way}": partial(ours, mode, runs[f"{mode}, {way}"], more=more)
        for mode in MODES
        for way, more in ways.items()
    }
    rates, failures = take_turns(contestants, rounds)
    table = Table("mode", "samples/s plain", "TLS", "TLS / plain", "CPU ms a batch plain", "TLS", "TLS / plain")
    cases = []
    for mode in MODES:
        names = [f"{mode}, {way}" for way in ways]
        speeds = [statistics.median(rates[name]) for name in names]
        # What all processes compute for a batch, which other work on the machine does not change much.
        cpu_ms = [sum(inside(runs[name])["cpu_ms_per_batch"].values()) for name in names]
        ratios = speeds[1] / speeds[0], cpu_ms[1] / cpu_ms[0]
        table.add_row(
            mode,
            *(f"{value:,.0f}" for value in speeds),
            f"{ratios[0]:.2f}",
            *(f"{value:.1f}" for value in cpu_ms),
            f"{ratios[1]:.2f}",
        )
        cases.append(
            {
                "case": mode,
                "raw_samples_per_s": {name: rates[name] for name in names},
                "tls_over_plain": ratios[0],
                "cpu_ms_per_batch": dict(zip(ways, cpu_ms, strict=True)),
                "cpu_tls_over_plain": ratios[1],
            }
        )
    Console().print(table)
    if path is not None:
        write_results(path, cases, command=f"python benchmarks/tls.py --rounds {rounds}", failures=failures)


if __name__ == "__main__":
    main()
