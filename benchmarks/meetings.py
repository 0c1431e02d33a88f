"""What it costs a server that many workers declare a job and meet: by gRPC and by the data plane.

    python benchmarks/meetings.py --json benchmarks/results/meetings.json

One real server; every worker has a connection of its own, and all declare, and then come to a barrier, at once, as the
workers of a job do. Counted are the seconds until the last has its answer, and the server's own CPU time.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from harness import write_results
from plane import LIMIT_S, by_grpc, by_plane, cpu_s, job, raise_file_limit, servers
from rich.console import Console
from rich.table import Table

from fleet.errors import CommunicationError
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.transport import Answer, Transport

PAUSE_S = 0.05
WAIT_MS = 5_000


def all_answers(begin: Callable[[int], Answer], count: int, is_over: Callable[[Any], bool], limit_s: float) -> int:
    """Have every worker call until it has the answer that it wants; how many calls were made."""
    deadline, num_calls = time.monotonic() + limit_s, count
    waiting = {worker: begin(worker) for worker in range(count)}
    while waiting:
        again = []
        for worker in list(waiting):
            try:
                if is_over(waiting.pop(worker).result()[0]):
                    continue
            except CommunicationError as error:
                if not error.retryable:
                    raise
            again.append(worker)
        if time.monotonic() > deadline:
            raise click.ClickException(f"{len(again)} of {count} workers have no answer after {limit_s:g} s")
        if again:
            time.sleep(PAUSE_S)
        num_calls += len(again)
        waiting = {worker: begin(worker) for worker in again}
    return num_calls


def declared(transports: Sequence[Transport], num_tables: int, limit_s: float) -> int:
    """All workers declare a job; the name of the server."""
    text = job(num_tables, len(transports), 1, "sync").to_json()
    found = 0

    def begin(worker: int) -> Answer:
        caller = ps_pb2.Caller(worker=worker, incarnation=1)
        header = ps_pb2.DeclareRequest.Header(caller=caller, job=text, life=worker + 1)
        return transports[worker].call("Declare", header, (), limit_s)

    def is_over(reply: ps_pb2.DeclareReply.Header) -> bool:
        nonlocal found
        found = reply.instance
        return True

    all_answers(begin, len(transports), is_over, limit_s)
    return found


def met(transports: Sequence[Transport], instance: int, name: str, limit_s: float) -> int:
    """All workers come to a barrier; how many calls that took."""

    def begin(worker: int) -> Answer:
        header = ps_pb2.MeetRequest.Header(
            caller=ps_pb2.Caller(worker=worker, incarnation=1, instance=instance),
            name=name,
            is_here=True,
            timeout_ms=WAIT_MS,
            is_between_steps=True,
        )
        return transports[worker].call("Meet", header, (), limit_s)

    return all_answers(begin, len(transports), lambda reply: bool(reply.is_complete), limit_s)


@click.command()
@click.option("--workers", default=2_000, show_default=True)
@click.option("--tables", default=26, show_default=True, help="Tables of the job that they declare.")
@click.option("--barriers", default=5, show_default=True)
@click.option("--limit", "limit_s", default=LIMIT_S, show_default=True, help="Seconds after which one is given up.")
@click.option("--way", "ways", multiple=True, type=click.Choice(["gRPC", "data plane"]), help="Only these.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(workers: int, tables: int, barriers: int, limit_s: float, ways: tuple[str, ...], path: Path | None) -> None:
    raise_file_limit()
    makers = {"gRPC": by_grpc, "data plane": by_plane}
    raw: dict[str, list[float]] = {}
    for way in ways or makers:
        with servers(1) as (endpoints, processes), contextlib.ExitStack() as stack:
            transports = [makers[way](endpoints[0]) for _ in range(workers)]
            for one in transports:
                stack.callback(one.close)
            names = [f"declare, {way}", *(f"barrier, {way}" for _ in range(barriers))]
            instance = 0
            for number, name in enumerate(names):
                began, before = time.perf_counter(), cpu_s(processes)
                calls = workers
                try:
                    if number == 0:
                        instance = declared(transports, tables, limit_s)
                    else:
                        calls = met(transports, instance, f"barrier {number}", limit_s)
                except click.ClickException as error:
                    Console().print(f"{name}: {error.message}")
                    raw.setdefault(f"{name}: s", []).append(float("inf"))
                    break
                raw.setdefault(f"{name}: s", []).append(time.perf_counter() - began)
                raw.setdefault(f"{name}: server CPU s", []).append(cpu_s(processes) - before)
                raw.setdefault(f"{name}: calls", []).append(calls)
    table = Table("what", "median", "least", "most")
    for name, values in raw.items():
        table.add_row(name, *(f"{one:,.3f}" for one in (statistics.median(values), min(values), max(values))))
    Console().print(table)
    if path is not None:
        cases = [{"what": name, "raw": values, "median": statistics.median(values)} for name, values in raw.items()]
        write_results(path, cases, workers=workers, tables=tables)


if __name__ == "__main__":
    main()
