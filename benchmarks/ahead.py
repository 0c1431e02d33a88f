"""Dense gradients that leave while backward runs (strategy.wire_configs.dense_ahead), or with the step, in turns.

    python benchmarks/ahead.py --json benchmarks/results/ahead.json      (root: it makes network namespaces)

Two servers on one machine, two workers on another, joined by a slowed cable, as in wire.py. Each worker trains CTR-DNN
(430,000 dense parameters: 1.7 MB of gradients) in sync mode, without TLS.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from harness import write_results
from rich.console import Console
from rich.table import Table
from slow_link import BURST, LATENCY, slow_down
from turns import take_turns
from wire import Workers, over_a_cable, rate_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.hosts import two_hosts, why_not

AHEAD, LATE = "ahead", "with the step"
WAYS: Mapping[str, Mapping[str, Any]] = {AHEAD: {}, LATE: {"dense_ahead": False}}


def case_of(name: str, runs: Sequence[Workers], late: Sequence[Workers]) -> dict[str, Any]:
    rates = [rate_of(workers) for workers in runs]
    counts = [worker["counts"] for workers in runs for worker in workers]

    def counted(what: str) -> float:
        return float(statistics.mean(one.get(f"ahead.{what}", 0) for one in counts))

    return {
        "case": name,
        "raw_samples_per_s": rates,
        "median_samples_per_s": statistics.median(rates),
        "times_faster": statistics.median(rates) / statistics.median(map(rate_of, late)),
        "ms_of_a_step": {part: 1000 * part_s(runs, part) for part in ("next", "forward", "backward", "step")},
        "cpu_s_of_workers": statistics.median(workers[0]["cpu_s"]["workers"] for workers in runs),
        "sent_ahead_bytes": counted("sent_bytes"),
        "joined_bytes": counted("joined_bytes"),
        "held_out": [workers[0]["after"]["loss"] for workers in runs],
    }


def part_s(runs: Sequence[Workers], part: str) -> float:
    return float(
        statistics.median(worker["parts_s"][part] / worker["batches"] for workers in runs for worker in workers)
    )


def show(cases: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title="CTR-DNN, sync, 2 servers + 2 workers over a cable; ms of one step of a worker")
    table.add_column("case", no_wrap=True)
    for header in ("samples/s", "range", "faster", "backward", "step", "CPU s", "MB ahead", "of use"):
        table.add_column(header, justify="right", no_wrap=True)
    for case in cases:
        raw, sent = case["raw_samples_per_s"], case["sent_ahead_bytes"]
        table.add_row(
            case["case"],
            f"{case['median_samples_per_s']:,.0f}",
            f"{min(raw):,.0f}-{max(raw):,.0f}",
            f"{case['times_faster']:.2f}",
            f"{case['ms_of_a_step']['backward']:.1f}",
            f"{case['ms_of_a_step']['step']:.1f}",
            f"{case['cpu_s_of_workers']:.1f}",
            f"{sent / 1e6:.0f}",
            f"{case['joined_bytes'] / sent:.0%}" if sent else "",
        )
    Console().print(table)


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each way is run.")
@click.option("--steps", default=120, show_default=True, help="Batches of each worker that count.")
@click.option("--rate", "rates", multiple=True, default=["1gbit"], show_default=True, help="Of the cable, as tc says.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, rates: tuple[str, ...], path: Path | None) -> None:
    if (reason := why_not()) is not None:
        raise click.ClickException(f"no two machines here: {reason}")
    cases: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for rate in rates:
        with two_hosts() as hosts:
            slow_down(hosts, rate)
            contestants: dict[str, Callable[[Path], Workers]] = {
                f"{rate}, {name}": partial(run, hosts, wire, steps) for name, wire in WAYS.items()
            }
            found, failed = take_turns(contestants, rounds)
        failures |= {name: reason.partition("\n")[0] for name, reason in failed.items()}
        late = found[f"{rate}, {LATE}"]
        cases += [case_of(name, found[name], late) for name in found if late and found[name]]
    show(cases)
    if path is not None:
        link = {"burst": BURST, "latency": LATENCY, "qdisc": "tbf at both ends of a veth pair"}
        write_results(path, cases, link=link, steps=steps, failures=failures)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


def run(hosts: Any, wire: Mapping[str, Any], steps: int, folder: Path) -> Workers:
    return over_a_cable(hosts, "sync", wire, folder, "--steps", steps)


if __name__ == "__main__":
    main()
