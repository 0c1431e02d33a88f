"""What a call costs a server, and what many servers and many workers cost: the data plane beside gRPC.

    python benchmarks/plane.py --json benchmarks/results/plane.json

Small pulls: 32 rows of 8 from a real server, several under way; counted are pulls for each second of the server's own
CPU time, by gRPC and by the data plane in turns, and the same keys spread over 26 tables. Many servers: what pull and
push of a batch's 14,000 keys cost the CPU of a worker of 100 servers. Many workers: synchronous steps of 2,000 workers
on 2 servers, each worker with connections of its own.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import torch
from harness import write_results
from rich.console import Console
from rich.table import Table

from fleet import _native
from fleet.net import Endpoint, Hold
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec, RuleSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.plane_client import PlaneTransport, plane_name
from fleet.ps.wire.transport import Transport
from fleet.ps.wire.trust.own_token import token_for
from fleet.ps.worker.asking.lookup import Request, make_lookup
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients, TablePush

WIDTH = 8
LIMIT_S = 120.0


def job(num_tables: int, num_workers: int, num_servers: int, mode: str = "async") -> JobSpec:
    tables = tuple(
        TableSpec(
            name=f"rows{index}",
            width=WIDTH,
            rule=RuleSpec("adagrad", (("lr", 0.1),)),
            initializer=InitializerSpec("uniform", (("high", 0.01), ("low", -0.01))),
            entry=EntrySpec("always"),
        )
        for index in range(num_tables)
    )
    return JobSpec(mode=mode, num_workers=num_workers, num_servers=num_servers, tables=tables)


@contextlib.contextmanager
def servers(count: int) -> Iterator[tuple[list[str], list[psutil.Process]]]:
    """Real servers, each a process of its own; their endpoints."""
    holds = [Hold(Endpoint("127.0.0.1", 0)) for _ in range(count)]
    endpoints = [str(hold.endpoint) for hold in holds]
    # With the name of a job, a server takes its port for held.
    environ = {**os.environ, "FLEET_NATIVE_THREADS": "1", "FLEET_JOB_ID": "benchmark"}
    command = [sys.executable, "-m", "fleet.ps.server", "--endpoint"]
    running = [
        subprocess.Popen(
            [*command, endpoint], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
        )
        for endpoint in endpoints
    ]
    try:
        for process in running:
            assert process.stdout is not None
            if not any(line.startswith("Server listening on ") for line in process.stdout):
                raise click.ClickException(f"a server ended with exit code {process.wait(LIMIT_S)}")
        yield endpoints, [psutil.Process(process.pid) for process in running]
    finally:
        for process in running:
            process.terminate()
        for process, hold in zip(running, holds, strict=True):
            process.communicate(timeout=LIMIT_S)
            hold.close()


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    return float(sum(used.user + used.system for used in (process.cpu_times() for process in processes)))


def by_grpc(endpoint: str) -> Transport:
    return GrpcTransport(endpoint, token_for(Endpoint.parse(endpoint)))


def by_plane(endpoint: str) -> Transport:
    return PlaneTransport(by_grpc(endpoint), token_for(Endpoint.parse(endpoint)), None)


def small_pulls(make: Callable[[str], Transport], num_tables: int, num_calls: int) -> float:
    """Pulls for each second of a server's CPU time: 32 keys, or 26 x 26 over so many tables."""
    with servers(1) as (endpoints, processes), contextlib.closing(make(endpoints[0])) as transport:
        client = Client([transport], 0, job(26, 1, 1))
        client.declare()
        keys = np.arange(26 * 26 if num_tables > 1 else 32, dtype=np.int64)
        parts = np.split(keys, num_tables)
        header = ps_pb2.PullRequest.Header(caller=client.caller(0), tables=range(num_tables))
        under_way: list[Any] = []
        for number in range(num_calls + num_calls // 10):
            if number == num_calls // 10:
                before = cpu_s(processes)
            under_way.append(transport.call("Pull", header, parts, LIMIT_S))
            if len(under_way) == 16:
                under_way.pop(0).result()
        for answer in under_way:
            answer.result()
        return num_calls / (cpu_s(processes) - before)


def wide_pulls(num_tables: int, num_keys: int, num_calls: int) -> float:
    """Microseconds of a server's CPU for some keys of one table, or of 26."""
    with servers(1) as (endpoints, processes), contextlib.closing(by_plane(endpoints[0])) as transport:
        client = Client([transport], 0, job(26, 1, 1))
        client.declare()
        parts = np.split(np.arange(num_keys, dtype=np.int64), num_tables)
        header = ps_pb2.PullRequest.Header(caller=client.caller(0), tables=range(num_tables))
        transport.call("Pull", header, parts, LIMIT_S).result()
        before = cpu_s(processes)
        for _ in range(num_calls):
            transport.call("Pull", header, parts, LIMIT_S).result()
        return 1e6 * (cpu_s(processes) - before) / num_calls


def pull_and_push(client: Client, step: int, ids: torch.Tensor, num_servers: int) -> None:
    """What a worker sends for one batch."""
    lookup = make_lookup(Request(0, (ids,)), WIDTH, num_servers, counts=False)
    client.pull([lookup]).finish(torch.device("cpu"), True)
    push = TablePush(0, 0.1, lookup.route.grouped, torch.ones(lookup.num_rows, WIDTH), lookup.route.offsets.tolist())
    client.push(Gradients(step, [push], steps=step + 1)).results()


def many_servers(num_servers: int, steps: int) -> float:
    """Milliseconds of a worker's CPU for one step: pull and push of 14,000 keys."""
    with servers(num_servers) as (endpoints, _):
        client = Client([by_plane(endpoint) for endpoint in endpoints], 0, job(1, 1, num_servers))
        try:
            client.declare()
            spent = []
            for step in range(steps):
                ids = torch.randint(0, 1 << 40, (14_000,))
                began = time.process_time()
                pull_and_push(client, step, ids, num_servers)
                spent.append(1000 * (time.process_time() - began))
            return statistics.median(spent[2:])
        finally:
            client.close()


def many_workers(num_workers: int, steps: int) -> tuple[float, float]:
    """Synchronous steps/s, and milliseconds of each server's CPU for one; every worker has connections of its own."""
    with servers(2) as (endpoints, processes):
        where = [Endpoint.parse(endpoint) for endpoint in endpoints]
        controls = [by_grpc(endpoint) for endpoint in endpoints]
        spec = job(1, num_workers, 2, "sync")
        instances, run = [0, 0], 0
        for worker in range(num_workers):
            for server, control in enumerate(controls):
                header = ps_pb2.DeclareRequest.Header(
                    caller=ps_pb2.Caller(worker=worker, incarnation=1),
                    job=spec.to_json(),
                    server_index=server,
                    life=worker + 1,
                    run=run,
                )
                reply: Any = control.call("Declare", header, (), LIMIT_S).result()[0]
                instances[server] = reply.instance
                run = run or reply.run
        tokens = [(token_for(one) or "").encode() for one in where]
        links = [
            [
                _native.PlaneClient.unix(plane_name(one.host, one.port), token, 10, True)
                for one, token in zip(where, tokens, strict=True)
            ]
            for _ in range(num_workers)
        ]
        keys, grads = np.arange(64, dtype=np.int64), np.full((64, WIDTH), 0.01, np.float32)
        took = []
        before = 0.0
        for step in range(steps + 2):
            if step == 2:
                before = cpu_s(processes)
            began = time.perf_counter()
            answers = []
            for worker, own in enumerate(links):
                for server, link in enumerate(own):
                    header_bytes = ps_pb2.PushRequest.Header(
                        caller=ps_pb2.Caller(worker=worker, incarnation=1, instance=instances[server]),
                        sequence=step + 1,
                        step=step,
                        tables=[ps_pb2.PushRequest.Table(table=0, lr=0.1)],
                        pull_tables=[0],
                        timeout_ms=60_000,
                        steps=step + 1,
                    ).SerializeToString()
                    answers.append(link.call(2, header_bytes, (keys, grads, keys), 4096))
            for answer in answers:
                if not answer.wait(LIMIT_S) or answer.state != 1:
                    raise click.ClickException(f"step {step}: {answer.text}")
            took.append(time.perf_counter() - began)
        cpu_ms = 1000 * (cpu_s(processes) - before) / steps / 2
        for own in links:
            for link in own:
                link.close()
        for control in controls:
            control.close()
        return 1 / statistics.median(took[2:]), cpu_ms


def raise_file_limit() -> None:
    """Every worker has a connection to each server."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each contestant of the small pulls is run.")
@click.option("--calls", default=20_000, show_default=True, help="Small pulls of one run, by the data plane.")
@click.option("--servers", "num_servers", default=100, show_default=True, help="Servers of the one worker.")
@click.option("--workers", default=2_000, show_default=True, help="Workers of the 2 servers.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, calls: int, num_servers: int, workers: int, path: Path | None) -> None:
    raise_file_limit()
    torch.set_num_threads(1)
    raw: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        raw.setdefault(name, []).append(value)

    for _ in range(rounds):
        note("pulls/s a core, gRPC", small_pulls(by_grpc, 1, calls // 10))
        note("pulls/s a core, data plane", small_pulls(by_plane, 1, calls))
        for keys, number in ((676, calls), (6_760, calls // 5)):
            note(f"us a pull of {keys} keys, 1 table", wide_pulls(1, keys, number))
            note(f"us a pull of {keys} keys, 26 tables", wide_pulls(26, keys, number))
    if num_servers:
        for _ in range(min(rounds, 3)):
            note(f"ms a step of a worker, {num_servers} servers", many_servers(num_servers, 30))
    if workers:
        for _ in range(min(rounds, 3)):
            rate, cpu_ms = many_workers(workers, 20)
            note(f"sync steps/s, {workers} workers", rate)
            note(f"ms CPU of a server a step, {workers} workers", cpu_ms)
    table = Table("what", "median", "least", "most")
    for name, values in raw.items():
        table.add_row(name, *(f"{one:,.2f}" for one in (statistics.median(values), min(values), max(values))))
    Console().print(table)
    if path is not None:
        cases = [{"what": name, "raw": values, "median": statistics.median(values)} for name, values in raw.items()]
        write_results(path, cases)


if __name__ == "__main__":
    main()
