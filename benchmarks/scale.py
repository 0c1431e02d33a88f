"""CTR-DNN on more and more cores of one machine: S servers and W workers, as a share of W times 1 + 1.

    python benchmarks/scale.py --json benchmarks/results/scale.json --peers-python torchrec=VENV/bin/python

Batches of 1,000 and one thread a worker. The contestants take turns; quoted are medians and their spread. The last job
wants 16 cores. TorchRec, with as many ranks as a job has workers, is run where a Python that has it is given.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from ctr import MODES, Workers, inside, ours
from harness import write_results
from peers import PEERS, Rate, local_copies, torchrec, version
from rich.console import Console
from rich.table import Table
from turns import pythons_option, scripts_option, take_turns

ALONE = "alone"


class Contestant(NamedTuple):
    """What is run: `servers` is None for TorchRec, whose `way` is how it divides its tables."""

    way: str
    servers: int | None
    workers: int

    @property
    def name(self) -> str:
        if not self.servers and self.way == ALONE:
            return f"no server, {self.workers} processes"
        if self.servers is None:
            return f"TorchRec {self.way}, {self.workers} ranks"
        return f"fleet {self.way}, {self.servers} + {self.workers}"


def parse_jobs(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[tuple[int, int]]:
    """Read each `S+W`."""
    jobs = []
    for text in texts:
        servers, plus, workers = text.partition("+")
        if not (plus and servers.isdecimal() and workers.isdecimal() and int(servers) and int(workers)):
            raise click.BadParameter(f"{text!r} is not SERVERS+WORKERS; write for example 4+12")
        jobs.append((int(servers), int(workers)))
    return jobs


def shares(contestant: Contestant, rates: Mapping[Contestant, Sequence[float]]) -> list[float]:
    """By round: the rate as a share of W times what 1 + 1 reached in that round; empty where 1 + 1 was not run.

    Of processes that share nothing, of what one alone reached: how far the machine itself is from so many machines.
    """
    first = 0 if contestant.way == ALONE else 1
    alone = rates.get(Contestant(contestant.way, first, 1), ())
    return [rate / (contestant.workers * one) for rate, one in zip(rates[contestant], alone, strict=False)]


def cases_of(
    rates: Mapping[Contestant, Sequence[float]], runs: Mapping[Contestant, Sequence[Workers]]
) -> list[dict[str, Any]]:
    return [
        {
            "case": contestant.name,
            "servers": contestant.servers,
            "workers": contestant.workers,
            "raw_samples_per_s": raw,
            "median_samples_per_s": statistics.median(raw),
            "raw_share_of_1_and_1": shares(contestant, rates),
            **(inside(runs[contestant]) if contestant in runs else {}),
        }
        for contestant, raw in rates.items()
        if raw
    ]


def with_spread(values: Sequence[float], form: str) -> str:
    """The median, and from the least to the most; nothing of nothing."""
    if not values:
        return ""
    middle, least, most = (format(value, form) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({least} to {most})"


def show(cases: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title="CTR-DNN, batch 1000, one thread a worker: medians (least to most), and CPU ms a batch")
    table.add_column("servers + workers", no_wrap=True)
    for header in ("samples/s", "of W x (1 + 1)", "CPU, workers", "servers"):
        table.add_column(header, justify="right")
    for case in cases:
        cpu = case.get("cpu_ms_per_batch", {})
        table.add_row(
            case["case"],
            with_spread(case["raw_samples_per_s"], ",.0f"),
            with_spread(case["raw_share_of_1_and_1"], ".0%"),
            *(f"{cpu[who]:.1f}" if cpu else "" for who in ("workers", "servers")),
        )
    Console().print(table)


@click.command()
@click.option(
    "--rounds", type=click.IntRange(1), default=3, show_default=True, help="How often each contestant is run."
)
@click.option(
    "--job",
    "jobs",
    multiple=True,
    metavar="S+W",
    default=("1+1", "2+2", "4+4", "8+8", "4+12"),
    show_default=True,
    callback=parse_jobs,
    help="A number of servers and workers. May be repeated.",
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(MODES),
    default=MODES,
    show_default=True,
    help="May be repeated.",
)
@click.option("--within-s", type=float, default=math.inf, help="Begin no run after so many seconds.")
@click.option(
    "--steps", type=click.IntRange(1), default=200, show_default=True, help="Batches of each worker that count."
)
@click.option(
    "--ranks",
    multiple=True,
    type=click.IntRange(1),
    default=(8, 12),
    show_default=True,
    help="Ranks of TorchRec. May be repeated.",
)
@click.option(
    "--sharding",
    "shardings",
    multiple=True,
    type=click.Choice(["table_wise", "row_wise"]),
    default=("table_wise",),
    show_default=True,
    help="How TorchRec divides its tables. May be repeated.",
)
@click.option(
    "--alone",
    multiple=True,
    type=click.IntRange(1),
    help="So many processes that share nothing, for what the machine itself allows. May be repeated.",
)
@pythons_option(["torchrec"])
@scripts_option
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    rounds: int,
    jobs: Sequence[tuple[int, int]],
    modes: Sequence[str],
    within_s: float,
    steps: int,
    ranks: Sequence[int],
    shardings: Sequence[str],
    alone: Sequence[int],
    pythons: dict[str, Path],
    scripts: Path,
    path: Path | None,
) -> None:
    """Measure, print a table, and write the results if asked."""
    runs: dict[Contestant, list[Workers]] = {}
    contestants: dict[Contestant, Rate] = {}
    for mode in modes:
        for servers, workers in jobs:
            job = Contestant(mode, servers, workers)
            runs[job] = []
            contestants[job] = partial(ours, mode, runs[job], servers=servers, workers=workers, steps=steps)
    python = pythons.get("torchrec")
    if python is not None:
        if not scripts.is_dir():
            raise click.UsageError(f"--peers-scripts {scripts} is not a folder; TorchRec's script is needed")
        for sharding in shardings:
            for number in ranks:
                contestants[Contestant(sharding, None, number)] = torchrec(
                    scripts.absolute(), python, ranks=number, sharding=sharding, steps=steps
                )
    for number in alone:
        contestants[Contestant(ALONE, 0, number)] = local_copies(scripts.absolute(), number)
    versions = {} if python is None else {"torchrec": version(PEERS["torchrec"].module, python)}

    found, failures = take_turns(
        {contestant.name: run for contestant, run in contestants.items()}, rounds, within_s=within_s
    )
    rates = {contestant: found[contestant.name] for contestant in contestants}
    cases = cases_of(rates, {contestant: figures for contestant, figures in runs.items() if figures})
    show(cases)
    if path is not None:
        options = [
            f"--rounds {rounds}",
            f"--steps {steps}",
            *([f"--within-s {within_s:g}"] if within_s < math.inf else []),
        ]
        options += [f"--job {servers}+{workers}" for servers, workers in jobs] + [f"--mode {mode}" for mode in modes]
        if python is not None:
            options += [f"--ranks {number}" for number in ranks] + [f"--sharding {way}" for way in shardings]
            options.append("--peers-python torchrec=PYTHON")  # where it lies on this machine is nobody's business
        options += [f"--alone {number}" for number in alone]
        command = " ".join(["python benchmarks/scale.py", *options])
        reasons = {name: reason.partition("\n")[0] for name, reason in failures.items()}
        write_results(path, cases, command=command, peers=versions, failures=reasons)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
