"""Floats in fewer bytes (strategy.wire_configs): what a step sends, how fast it is on a slow cable, what it learns.

    python benchmarks/wire.py --samples 0 --json benchmarks/results/wire.json      (root: it makes network namespaces)
    python benchmarks/wire.py --rounds 0 --json benchmarks/results/wire_auc.json

Two servers on one machine, two workers on another: network namespaces on this one, joined by a cable that is slowed at
both ends (tc tbf), so that everything crosses it. Each worker trains CTR-DNN (26 rows of 10, 430,000 dense parameters)
on batches of 1,000, without TLS. Bytes are counted by the interface, with headers and acknowledgements.

Then one epoch of made-up clicks with 2 servers and 2 workers on this machine for each format, and the AUC on unseen
ones.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from harness import write_results
from modes_auc import MODEL, SCRIPT
from peers import BIN, ENVIRON, Command, run_together
from rich.console import Console
from rich.table import Table
from slow_link import BURST, LATENCY, slow_down
from turns import take_turns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.hosts import Host, two_hosts, why_not

CTR = Path(__file__).parent / "scripts" / "ctr_fleet.py"
EXACT = "float32"
WIRES: Mapping[str, Mapping[str, Any]] = {
    EXACT: {},
    "bfloat16": dict.fromkeys(("rows", "gradients", "dense", "dense_gradients"), "bfloat16"),
    "float16": dict.fromkeys(("rows", "gradients", "dense", "dense_gradients"), "float16"),
    "int8": {"rows": "int8", "gradients": "int8", "dense": "bfloat16", "dense_gradients": "int8"},
    "int8, 1% of dense": {"rows": "int8", "gradients": "int8", "dense": "bfloat16", "dense_topk": 0.01},
}
MODES = ("sync", "async")
LIMIT_S = 1800

Workers = list[dict[str, Any]]
"""What the two workers of a run wrote."""


def over_a_cable(
    hosts: tuple[Host, Host], mode: str, wire: Mapping[str, Any], folder: Path, *options: object
) -> Workers:
    """Train once, with these `wire_configs`: servers on the first host, workers on the second."""
    first, second = (host.address for host in hosts)
    where: Command = ["--servers", f"{first}:6170,{first}:6171", "--workers", f"{second},{second}", "--no-tls"]
    script: Command = [CTR, "--mode", mode, "--out", folder, "--wire", json.dumps(wire), *map(str, options)]
    run_together(
        [
            [
                *host.prefix,
                *("env", "FLEET_JOB_TOKEN=of-this-benchmark"),
                *(BIN / "fleetrun", "--quiet", *where, "--log_dir", folder / host.namespace, *script),
            ]
            for host in hosts
        ],
        folder,
    )
    return [json.loads((folder / f"worker{index}.json").read_text()) for index in range(2)]


def case_of(name: str, runs: Sequence[Workers], exact: Sequence[Workers]) -> dict[str, Any]:
    rates = [rate_of(workers) for workers in runs]
    traffic = bytes_of(runs)
    return {
        "case": name,
        "raw_samples_per_s": rates,
        "median_samples_per_s": statistics.median(rates),
        "times_faster_than_float32": statistics.median(rates) / statistics.median(map(rate_of, exact)),
        "bytes_per_step": traffic,
        "share_of_its_bytes": sum(traffic.values()) / sum(bytes_of(exact).values()),
        "cpu_s_of_workers": statistics.median(workers[0]["cpu_s"]["workers"] for workers in runs),
        "held_out": runs[-1][0]["after"],
    }


def rate_of(workers: Workers) -> float:
    seconds = max(one["end"] for one in workers) - min(one["begin"] for one in workers)
    return float(sum(one["samples"] for one in workers) / seconds)


def bytes_of(runs: Sequence[Workers]) -> dict[str, float]:
    """What the machine of the workers sends and receives in a step of one worker."""
    return {
        way: statistics.median(workers[0]["bytes"][way] / sum(one["batches"] for one in workers) for workers in runs)
        for way in ("sent", "received")
    }


def learn(wire: str, samples: int) -> dict[str, Any]:
    """Train one epoch in sync mode, which is the same every time; what train.py says of it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        job: Command = [
            BIN / "fleetrun",
            "--quiet",
            "--server_num",
            "2",
            "--worker_num",
            "2",
            "--log_dir",
            folder / "log",
        ]
        command: Command = [*job, SCRIPT, *MODEL, "--mode", "sync", "--data", f"synthetic:{samples}", "--out", folder]
        if WIRES[wire]:
            command += ["--wire", ",".join(f"{field}={value}" for field, value in WIRES[wire].items())]
        words = [str(word) for word in command]
        subprocess.run(words, cwd=folder, env=ENVIRON, check=True, timeout=LIMIT_S, stdout=sys.stderr)
        found: dict[str, Any] = json.loads((folder / "result.json").read_text())
        return {"case": f"one epoch, {wire}", "wire": dict(WIRES[wire]), **found}


def show(cases: Sequence[Mapping[str, Any]], epochs: Sequence[Mapping[str, Any]]) -> None:
    if cases:
        table = Table(title="CTR-DNN over a cable, 2 servers + 2 workers; MB are of a step of one worker")
        table.add_column("case", no_wrap=True)
        for header in ("samples/s", "range", "faster", "MB up", "MB down", "share", "loss"):
            table.add_column(header, justify="right", no_wrap=True)
        for case in cases:
            raw, traffic = case["raw_samples_per_s"], case["bytes_per_step"]
            table.add_row(
                case["case"],
                f"{case['median_samples_per_s']:,.0f}",
                f"{min(raw):,.0f}-{max(raw):,.0f}",
                f"{case['times_faster_than_float32']:.2f}",
                f"{traffic['sent'] / 1e6:.2f}",
                f"{traffic['received'] / 1e6:.2f}",
                f"{case['share_of_its_bytes']:.0%}",
                f"{case['held_out']['loss']:.4f}",
            )
        Console().print(table)
    for case in epochs:
        print(f"{case['case']}: AUC {case['AUC']:.4f}, log loss {case['log loss']:.4f}")


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often each format is run over the cable.")
@click.option(
    "--rate", "rates", multiple=True, default=["1gbit"], show_default=True, help="Of the cable, as tc says it."
)
@click.option("--samples", default=1_000_000, show_default=True, help="Of the epoch.")
@click.option("--only", multiple=True, type=click.Choice(list(WIRES)), help="Only these formats. May be repeated.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, rates: tuple[str, ...], samples: int, only: tuple[str, ...], path: Path | None) -> None:
    if rounds and (reason := why_not()) is not None:
        raise click.ClickException(f"no two machines here: {reason}")
    wires = [EXACT, *(name for name in only or WIRES if name != EXACT)]
    cases: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for rate in rates if rounds else ():
        with two_hosts() as hosts:
            slow_down(hosts, rate)
            contestants: dict[str, Callable[[Path], Workers]] = {
                f"{rate}, {mode}, {wire}": partial(over_a_cable, hosts, mode, WIRES[wire])
                for mode in MODES
                for wire in wires
            }
            found, failed = take_turns(contestants, rounds)
        failures |= {name: reason.partition("\n")[0] for name, reason in failed.items()}
        for mode in MODES:
            exact = found[f"{rate}, {mode}, {EXACT}"]
            names = [name for name in found if name.startswith(f"{rate}, {mode}, ") and name not in failed]
            cases += [case_of(name, found[name], exact) for name in names]
    epochs = [learn(wire, samples) for wire in wires] if samples else []
    show(cases, epochs)
    if path is not None:
        link = {"burst": BURST, "latency": LATENCY, "qdisc": "tbf at both ends of a veth pair"}
        wanted = {name: dict(WIRES[name]) for name in wires}
        command = shlex.join(["python", *sys.argv])  # names of formats have spaces
        write_results(path, [*cases, *epochs], command=command, link=link, wires=wanted, model=MODEL, failures=failures)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
