"""Workers of one machine and servers on another, joined by a slow cable: gradients combined, and each worker's alone.

    python benchmarks/combine.py --json benchmarks/results/combine.json      (root: it makes network namespaces)

The machines are network namespaces on this one, joined by a cable that is slowed at both ends (tc tbf). A click model:
26 slots, rows of 8, layers 208-400-400-1 (245,000 dense parameters), batch 512 a worker, synchronous. Bytes are counted
by the interface of the workers' machine, with headers and acknowledgements, during the timed steps. The losses of both
must be the same, bit by bit.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from harness import write_results
from peers import BIN, Command, run_together
from rich.console import Console
from rich.table import Table
from slow_link import BURST, LATENCY, Hosts, slow_down
from turns import take_turns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.hosts import two_hosts, why_not
from support.worker import combine_job

SERVER_PORTS = (6170, 6171)
MODEL: Command = ["--batch", "512", "--keys", "200000", "--hidden", "400"]


def trained(hosts: Hosts, combine: str, workers: int, steps: int, tls: bool, folder: Path) -> dict[str, Any]:
    """Train once, with a fleetrun on each host; what worker 0 wrote."""
    servers, machine = hosts
    launcher: Command = [BIN / "fleetrun", "--quiet", *([] if tls else ["--no-tls"])]
    where: Command = ["--servers", ",".join(f"{servers.address}:{port}" for port in SERVER_PORTS)]
    where += ["--workers", ",".join([machine.address] * workers)]
    out = folder / "worker0.json"
    script: Command = [combine_job.__file__, "--combine", combine, "--steps", str(steps), *MODEL, "--out", out]
    environ: Command = ["env", "FLEET_JOB_TOKEN=benchmark"]
    run_together(
        [[*host.prefix, *environ, *launcher, *where, "--log_dir", folder / host.namespace, *script] for host in hosts],
        folder,
    )
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def cases_of(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    cases = []
    for name, runs in found.items():
        case: dict[str, Any] = {"case": name, "raw_step_ms": [run["step_ms"] for run in runs]}
        for what in ("step_ms", "sent_bytes", "received_bytes"):
            case[f"median_{what}"] = statistics.median(run[what] for run in runs)
        case["losses"] = runs[0]["losses"]
        cases.append(case)
    return cases


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often each is run.")
@click.option("--workers", default=8, show_default=True, help="Of the one machine.")
@click.option("--steps", default=30, show_default=True, help="Timed steps of a run.")
@click.option("--rate", default="1gbit", show_default=True, help="Of the cable, as tc says it.")
@click.option(
    "--tls/--no-tls", default=True, show_default=True, help="Pushes go by gRPC with it, else by the data plane."
)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, workers: int, steps: int, rate: str, tls: bool, path: Path | None) -> None:
    if (reason := why_not()) is not None:
        raise click.ClickException(f"no two machines here: {reason}")
    with two_hosts() as hosts:
        slow_down(hosts, rate)
        contestants: dict[str, Callable[[Path], dict[str, Any]]] = {
            name: partial(trained, hosts, combine, workers, steps, tls)
            for name, combine in (("each alone", "never"), ("combined", "machine"))
        }
        found, failures = take_turns(contestants, rounds)
    cases = cases_of({name: runs for name, runs in found.items() if runs})
    table = Table("gradients", "ms/step", "range", "MB sent/step", "MB received/step")
    for case in cases:
        raw = case["raw_step_ms"]
        megabytes = (f"{case[what] / 1e6:,.2f}" for what in ("median_sent_bytes", "median_received_bytes"))
        table.add_row(case["case"], f"{case['median_step_ms']:,.1f}", f"{min(raw):,.1f}-{max(raw):,.1f}", *megabytes)
    Console().print(table)
    if path is not None:
        link = {"rate": rate, "burst": BURST, "latency": LATENCY, "qdisc": "tbf at both ends of a veth pair"}
        write_results(path, cases, link=link, workers=workers, servers=len(SERVER_PORTS), steps=steps, tls=tls)
    if failures:
        raise click.ClickException(f"failed: {', '.join(f'{name}: {why}' for name, why in failures.items())}")
    if len({tuple(case["losses"]) for case in cases}) > 1:
        raise click.ClickException("the losses are not the same")


if __name__ == "__main__":
    main()
