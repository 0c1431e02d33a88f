"""What being watched costs: CTR-DNN on 2 servers and 2 workers without figures, with them, and read once a second.

python benchmarks/metrics_cost.py --json benchmarks/results/metrics_cost.json
"""

from __future__ import annotations

import contextlib
import math
import socket
import statistics
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from ctr import Workers, inside, ours
from harness import write_results
from peers import Rate
from rich.console import Console
from rich.table import Table
from turns import take_turns

MODES = ("async", "sync")
WAYS = ("off", "on", "watched")
"""Without figures (FLEET_METRICS=0); as always; with a scraper and an open page, each asking once a second."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def readers(urls: Sequence[str]) -> Iterator[list[int]]:
    """Ask each of these once a second meanwhile; how many answers came."""
    is_over, answers = threading.Event(), [0]

    def read() -> None:
        while not is_over.wait(1.0):
            for url in urls:
                with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                    answer.read()
                    answers[0] += 1

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield answers
    finally:
        is_over.set()
        thread.join()


def run_way(mode: str, way: str, steps: int, runs: list[Workers], answers: list[int], folder: Path) -> float:
    """Train once; samples a second."""
    if way != "watched":
        variables = ("FLEET_METRICS=0",) if way == "off" else ()
        return ours(mode, runs, folder, steps=steps, variables=variables)
    ports = free_port(), free_port()
    more = ("--metrics_port", str(ports[0]), "--dashboard", str(ports[1]))
    urls = [
        f"http://127.0.0.1:{ports[0]}/metrics",
        *(f"http://127.0.0.1:{ports[1]}/api/{one}" for one in ("job", "history")),
    ]
    with readers(urls) as counted:
        rate = ours(mode, runs, folder, steps=steps, more=more)
    answers.append(counted[0])
    return rate


@click.command()
@click.option("--rounds", default=7, show_default=True, help="How often each is run.")
@click.option("--steps", default=600, show_default=True, help="Batches of each worker that count.")
@click.option("--limit", default=math.inf, help="Seconds after which no run begins.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, limit: float, path: Path | None) -> None:
    """Measure, print a table, and write the results if asked."""
    runs: dict[str, list[Workers]] = {f"{mode}, {way}": [] for mode in MODES for way in WAYS}
    answers: list[int] = []

    def contestant(mode: str, way: str) -> Rate:
        return lambda folder: run_way(mode, way, steps, runs[f"{mode}, {way}"], answers, folder)

    contestants = {f"{mode}, {way}": contestant(mode, way) for mode in MODES for way in WAYS}
    rates, failures = take_turns(contestants, rounds, within_s=limit)
    table = Table(
        "mode", *(f"samples/s {way}" for way in WAYS), "on / off", "watched / off", "CPU on / off", "watched / off"
    )
    cases = []
    for mode in MODES:
        names = [f"{mode}, {way}" for way in WAYS]
        speeds = [statistics.median(rates[name]) for name in names]
        # What all processes compute for a batch, which other work on the machine does not change much.
        cpu_ms = [sum(inside(runs[name])["cpu_ms_per_batch"].values()) for name in names]
        ratios = [speeds[1] / speeds[0], speeds[2] / speeds[0], cpu_ms[1] / cpu_ms[0], cpu_ms[2] / cpu_ms[0]]
        table.add_row(mode, *(f"{value:,.0f}" for value in speeds), *(f"{ratio:.3f}" for ratio in ratios))
        cases.append(
            {
                "case": mode,
                "raw_samples_per_s": {name: rates[name] for name in names},
                "cpu_ms_per_batch": dict(zip(WAYS, cpu_ms, strict=True)),
                "speed_over_off": dict(zip(WAYS[1:], ratios[:2], strict=True)),
                "cpu_over_off": dict(zip(WAYS[1:], ratios[2:], strict=True)),
            }
        )
    Console().print(table)
    Console().print(f"answers read in each watched run: {answers}")
    if path is not None:
        command = f"python benchmarks/metrics_cost.py --rounds {rounds} --steps {steps}"
        write_results(path, cases, command=command, failures=failures)


if __name__ == "__main__":
    main()
