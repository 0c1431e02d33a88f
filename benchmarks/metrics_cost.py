"""What being watched costs: CTR-DNN on 2 servers and 2 workers without figures, with them, and read once a second.

    python benchmarks/metrics_cost.py --json benchmarks/results/metrics_cost.json

The ways take turns. With `--sets`, for a machine of many cores, they run side by side instead, each on its own cores,
which the launcher and the readers share, and on other ones in each round: what slows down the machine for a while slows
down all, and the ratio of a round is that of runs of the same seconds.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

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


def take_rounds(
    contestants: Mapping[str, Rate], rounds: int, sets: Sequence[set[int]], limit_s: float
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """As `take_turns` has it, but the ways of a mode side by side, each on a set of cores, in turn on another."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    begun = time.monotonic()

    def one(name: str, cores: set[int]) -> float:
        os.sched_setaffinity(0, cores)  # of this thread, and of what it starts
        with TemporaryDirectory() as folder:
            return contestants[name](Path(folder))

    for turn in range(rounds):
        for mode in MODES:
            if time.monotonic() - begun > limit_s:
                return rates, {}
            names = [f"{mode}, {way}" for way in WAYS]
            with ThreadPoolExecutor(len(names)) as threads:
                placed = [sets[(turn + number) % len(sets)] for number in range(len(names))]
                for name, rate in zip(names, threads.map(one, names, placed), strict=True):
                    rates[name].append(rate)
            print(turn, mode, [round(rates[name][-1]) for name in names], flush=True)
    return rates, {}


def sets_of(text: str) -> list[set[int]]:
    """`0-3,4-7,8-11` as sets of cores."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.append(set(range(int(first), int(last or first) + 1)))
    if len(found) != len(WAYS):
        raise click.UsageError(f"--sets {text}: give {len(WAYS)} sets of cores, such as 0-3,4-7,8-11")
    return found


@click.command()
@click.option("--rounds", default=7, show_default=True, help="How often each is run.")
@click.option("--steps", default=600, show_default=True, help="Batches of each worker that count.")
@click.option("--limit", default=math.inf, help="Seconds after which no run begins.")
@click.option("--sets", help="Three sets of cores, such as 0-3,4-7,8-11: the ways run side by side, see above.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, limit: float, sets: str | None, path: Path | None) -> None:
    """Measure, print a table, and write the results if asked."""
    runs: dict[str, list[Workers]] = {f"{mode}, {way}": [] for mode in MODES for way in WAYS}
    answers: list[int] = []

    def contestant(mode: str, way: str) -> Rate:
        return lambda folder: run_way(mode, way, steps, runs[f"{mode}, {way}"], answers, folder)

    contestants = {f"{mode}, {way}": contestant(mode, way) for mode in MODES for way in WAYS}
    if sets is None:
        rates, failures = take_turns(contestants, rounds, within_s=limit)
    else:
        rates, failures = take_rounds(contestants, rounds, sets_of(sets), limit)
    table = Table(
        "mode", *(f"samples/s {way}" for way in WAYS), "on / off", "watched / off", "CPU on / off", "watched / off"
    )
    cases = []
    for mode in MODES:
        names = [f"{mode}, {way}" for way in WAYS]
        speeds = [statistics.median(rates[name]) for name in names]
        by_round = [
            [a / b for a, b in zip(rates[name], rates[names[0]], strict=False)] if sets is not None else []
            for name in names[1:]
        ]
        # What all processes compute for a batch, which other work on the machine does not change much.
        cpu_ms = [sum(inside(runs[name])["cpu_ms_per_batch"].values()) for name in names]
        ratios = [
            *(statistics.median(one or [speed / speeds[0]]) for one, speed in zip(by_round, speeds[1:], strict=True)),
            cpu_ms[1] / cpu_ms[0],
            cpu_ms[2] / cpu_ms[0],
        ]
        table.add_row(mode, *(f"{value:,.0f}" for value in speeds), *(f"{ratio:.3f}" for ratio in ratios))
        cases.append(
            {
                "case": mode,
                "raw_samples_per_s": {name: rates[name] for name in names},
                "cpu_ms_per_batch": dict(zip(WAYS, cpu_ms, strict=True)),
                **({"speed_over_off_by_round": dict(zip(WAYS[1:], by_round, strict=True))} if sets is not None else {}),
                "speed_over_off": dict(zip(WAYS[1:], ratios[:2], strict=True)),
                "cpu_over_off": dict(zip(WAYS[1:], ratios[2:], strict=True)),
            }
        )
    Console().print(table)
    Console().print(f"answers read in each watched run: {answers}")
    if path is not None:
        command = f"python benchmarks/metrics_cost.py --rounds {rounds} --steps {steps}"
        command += "" if sets is None else f" --sets {sets}"
        write_results(path, cases, command=command, failures=failures)


if __name__ == "__main__":
    main()
