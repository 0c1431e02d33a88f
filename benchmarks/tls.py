"""What TLS between workers and servers costs: CTR-DNN on 2 servers and 2 workers, with and without it, in turns.

python benchmarks/tls.py --json benchmarks/results/tls.json
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path

import click
from ctr import MODES, Workers, ours
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
    runs: list[Workers] = []
    ways = {"plain": ("--no-tls",), "TLS": ("--tls",)}
    contestants: dict[str, Rate] = {
        f"{mode}, {way}": partial(ours, mode, runs, more=more) for mode in MODES for way, more in ways.items()
    }
    rates, failures = take_turns(contestants, rounds)
    table = Table("mode", "plain samples/s", "TLS samples/s", "TLS / plain")
    cases = []
    for mode in MODES:
        plain, tls = (rates[f"{mode}, {way}"] for way in ways)
        medians = statistics.median(plain), statistics.median(tls)
        ratio = medians[1] / medians[0]
        table.add_row(mode, f"{medians[0]:,.0f}", f"{medians[1]:,.0f}", f"{ratio:.2f}")
        cases.append(
            {
                "case": mode,
                "raw_plain": plain,
                "raw_tls": tls,
                "median_tls_over_plain": ratio,
                "median_plain": medians[0],
            }
        )
    Console().print(table)
    if path is not None:
        write_results(path, cases, command=f"python benchmarks/tls.py --rounds {rounds}", failures=failures)


if __name__ == "__main__":
    main()
