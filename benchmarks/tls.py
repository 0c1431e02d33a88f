"""What TLS between workers and servers costs, and what it costs by gRPC: each way in turns.

    python benchmarks/tls.py --json benchmarks/results/tls.json

Everything goes through TCP, as between machines: on one machine a job would use shared memory, with TLS or without.
Calls: pull and push of 14,000 keys, a batch's, from one server; the CPU time of the server and of the worker for both.
Training: CTR-DNN on 2 servers and 2 workers; samples/s, and the CPU time that all processes spend on a batch.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from ctr import MODES, Workers, inside, ours
from harness import write_results
from peers import Rate
from plane import cpu_s, job, pull_and_push, servers
from rich.console import Console
from rich.table import Table
from turns import take_turns

from fleet.launch.tls.authority import Authority
from fleet.ps.worker.calling.client import Client
from fleet.runtime.modules.servers import transports

WAYS = {"plain": ("--no-tls", "TCP"), "TLS": ("--tls", "TCP"), "TLS by gRPC": ("--tls", "GRPC")}
"""The option of fleetrun, and FLEET_LOCAL_TRANSPORT."""
NUM_KEYS = 14_000


@contextlib.contextmanager
def environ(variables: Mapping[str, str]) -> Iterator[None]:
    """With some variables set, also for servers that are started meanwhile."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def certificates() -> Iterator[dict[str, str]]:
    """The variables of a job's TLS, with files as fleetrun mints them."""
    authority = Authority.from_token("of a benchmark")
    certificate, key = authority.issue("fleet-job")
    with tempfile.TemporaryDirectory() as folder:
        named = {"FLEET_TLS_NAME": "fleet-job"}
        for kind, text in (("CERT", certificate), ("KEY", key), ("CA", authority.certificate)):
            named[f"FLEET_TLS_{kind}"] = str(Path(folder, f"{kind}.pem"))
            Path(folder, f"{kind}.pem").write_bytes(text)
        yield named


def calls(way: str, steps: int) -> float:
    """Milliseconds of CPU, of a server and its worker, for pull and push of a batch."""
    option, transport = WAYS[way]
    with contextlib.ExitStack() as stack:
        variables = {"FLEET_LOCAL_TRANSPORT": transport}
        if option == "--tls":
            variables |= stack.enter_context(certificates())
        stack.enter_context(environ(variables))
        endpoints, processes = stack.enter_context(servers(1))
        client = Client(list(transports(endpoints, 1, None)), 0, job(1, 1, 1))
        stack.callback(client.close)
        client.declare()
        warm = steps // 4
        for step in range(warm + steps):
            if step == warm:
                before = cpu_s(processes) + time.process_time()
            pull_and_push(client, step, torch.randint(0, 1 << 20, (NUM_KEYS,)), 1)
        return 1000 * (cpu_s(processes) + time.process_time() - before) / steps


def measured_calls(rounds: int, steps: int) -> dict[str, Any]:
    raw: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in random.Random(number).sample(list(WAYS), len(WAYS)):
            raw[way].append(calls(way, steps))
    return {"case": "calls", "raw_cpu_ms_per_batch": raw, "cpu_ms_per_batch": _medians(raw)}


def measured_jobs(rounds: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    runs: dict[str, list[Workers]] = {f"{mode}, {way}": [] for mode in MODES for way in WAYS}
    contestants: dict[str, Rate] = {
        f"{mode}, {way}": partial(
            ours, mode, runs[f"{mode}, {way}"], more=(option,), variables=(f"FLEET_LOCAL_TRANSPORT={transport}",)
        )
        for mode in MODES
        for way, (option, transport) in WAYS.items()
    }
    rates, failures = take_turns(contestants, rounds)
    cases = [
        {
            "case": mode,
            "raw_samples_per_s": {way: rates[f"{mode}, {way}"] for way in WAYS},
            "samples_per_s": _medians({way: rates[f"{mode}, {way}"] for way in WAYS}),
            # What all processes compute for a batch, which other work on the machine does not change much.
            "cpu_ms_per_batch": {way: sum(inside(runs[f"{mode}, {way}"])["cpu_ms_per_batch"].values()) for way in WAYS},
        }
        for mode in MODES
        if all(rates[f"{mode}, {way}"] for way in WAYS)
    ]
    return cases, failures


def _medians(values: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(each) for name, each in values.items()}


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each is run.")
@click.option("--steps", default=200, show_default=True, help="Batches of the calls without a model.")
@click.option("--jobs/--no-jobs", default=True, help="Whether jobs are trained, which takes most of the time.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, jobs: bool, path: Path | None) -> None:
    """Measure, print a table, and write the results if asked."""
    torch.set_num_threads(1)
    cases = [measured_calls(rounds, steps)]
    failures: dict[str, str] = {}
    if jobs:
        more, failures = measured_jobs(rounds)
        cases += more
    table = Table("case", *(f"CPU ms a batch, {way}" for way in WAYS), *(f"samples/s, {way}" for way in WAYS))
    for case in cases:
        speeds = case.get("samples_per_s", {})
        table.add_row(
            case["case"],
            *(f"{case['cpu_ms_per_batch'][way]:.2f}" for way in WAYS),
            *(f"{speeds[way]:,.0f}" if speeds else "" for way in WAYS),
        )
    Console(width=140).print(table)
    if path is not None:
        command = f"python benchmarks/tls.py --rounds {rounds} --steps {steps}{'' if jobs else ' --no-jobs'}"
        write_results(path, cases, command=command, failures=failures)


if __name__ == "__main__":
    main()
