"""What workers wait for at the end of a synchronous step: from the last push to the first answer, and to the last.

    python benchmarks/step.py --json benchmarks/results/step.json

One real server with its part of CTR-DNN, as one of --servers has it, and as many workers as are asked for, in this
process: all but the last push a step, and a moment later the last. Counted are milliseconds until the first and until
the last answer is there, and the server's CPU time a step; medians.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from harness import write_results
from plane import LIMIT_S, by_grpc, cpu_s, servers
from rich.console import Console

from fleet import _native
from fleet.net import Endpoint
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec, RuleSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.plane_client import plane_name
from fleet.ps.wire.trust.own_token import token_for

sys.path.insert(0, str(Path(__file__).parents[1]))
from examples.ctr.data import batches

WIDTH, DENSE = 10, 431_000
PAUSE_S = 0.02
"""For the server to have done what it does before the last push comes."""
SKIP = 3
MOST_THREADS = 8


def job_of(workers: int, dense: int) -> JobSpec:
    table = TableSpec(
        name="ids",
        width=WIDTH,
        rule=RuleSpec("adagrad", (("lr", 0.05),)),
        initializer=InitializerSpec("uniform", (("high", 0.01), ("low", -0.01))),
        entry=EntrySpec("always"),
    )
    layers = DenseSpec(
        groups=(RuleSpec("adam", (("lr", 1e-4),)),),
        shapes=(("w", (dense,)),),
        blocks=(DenseBlock("w", 0, dense, server=0, group=0),),
    )
    return JobSpec(mode="sync", num_workers=workers, num_servers=1, tables=(table,), dense=layers)


def keys_of(workers: int, steps: int, num_servers: int) -> list[list[np.ndarray[Any, np.dtype[np.int64]]]]:
    """For each step and worker the distinct keys that the first of some servers has."""
    found = []
    for worker in range(workers):
        own = []
        for batch in batches(steps, worker=worker, zipf=1.1):
            keys, _, offsets, _ = _native.route(batch.ids.reshape(-1).contiguous(), num_servers, False)
            own.append(np.array(keys[: offsets[1]]))
        found.append(own)
    return [[own[step] for own in found] for step in range(steps)]


def declare(endpoint: str, workers: int, dense: int) -> int:
    """All workers declare the job, and the first gives the dense parameters; the server's name for itself."""
    control, instance = by_grpc(endpoint), 0
    try:
        for worker in range(workers):
            header = ps_pb2.DeclareRequest.Header(
                caller=ps_pb2.Caller(worker=worker, incarnation=1),
                job=job_of(workers, dense).to_json(),
                server_index=0,
                life=worker + 1,
                run=0,
            )
            reply: Any = control.call("Declare", header, (), LIMIT_S).result()[0]
            instance = reply.instance
        caller = ps_pb2.Caller(worker=0, incarnation=1, instance=instance)
        values = np.zeros(dense, np.float32)
        control.call("Start", ps_pb2.StartRequest.Header(caller=caller), (values,), LIMIT_S).result()
    finally:
        control.close()
    return instance


def measure(workers: int, num_servers: int, steps: int) -> dict[str, Any]:
    dense = DENSE // num_servers
    keys = keys_of(workers, steps + SKIP + 1, num_servers)
    most = max(len(one) for each in keys for one in each)
    grads, layers = np.full((most, WIDTH), 0.01, np.float32), np.full(dense, 0.01, np.float32)
    with servers(1) as (endpoints, processes):
        where = Endpoint.parse(endpoints[0])
        instance = declare(endpoints[0], workers, dense)
        token, name = (token_for(where) or "").encode(), plane_name(where.host, where.port)
        links = [_native.PlaneClient.unix(name, token, 10, True) for _ in range(workers)]

        def push(worker: int, step: int) -> _native.PlaneAnswer:
            header = ps_pb2.PushRequest.Header(
                caller=ps_pb2.Caller(worker=worker, incarnation=1, instance=instance),
                sequence=step + 1,
                step=step,
                tables=[ps_pb2.PushRequest.Table(table=0, lr=0.05)],
                dense_lrs=[1e-4],
                want_dense=True,
                pull_tables=[0],
                timeout_ms=60_000,
                steps=step + 1,
            )
            own, following = keys[step][worker], keys[step + 1][worker]
            room = 4 * (len(following) * WIDTH + dense) + 4096
            return links[worker].call(2, header.SerializeToString(), (own, grads[: len(own)], layers, following), room)

        firsts, lasts, before = [], [], 0.0
        for step in range(steps + SKIP):
            if step == SKIP:
                before = cpu_s(processes)
            answers = [push(worker, step) for worker in range(workers - 1)]
            time.sleep(PAUSE_S)
            began = time.perf_counter()
            answers.append(push(workers - 1, step))
            moments = answered(answers, step)
            firsts.append(1000 * (min(moments) - began))
            lasts.append(1000 * (max(moments) - began))
        cpu_ms = 1000 * (cpu_s(processes) - before) / steps
        for link in links:
            link.close()
    return {
        "case": f"{workers} workers, a server of {num_servers}",
        "first_ms": statistics.median(firsts[SKIP:]),
        "last_ms": statistics.median(lasts[SKIP:]),
        "server_cpu_ms": cpu_ms,
    }


def answered(answers: list[_native.PlaneAnswer], step: int) -> list[float]:
    """When each came; asked in turn, without a wait for any."""
    moments: dict[int, float] = {}
    until = time.perf_counter() + LIMIT_S
    while len(moments) < len(answers):
        for index, answer in enumerate(answers):
            if index not in moments and answer.wait(0.0):
                if answer.state != 1:
                    raise click.ClickException(f"step {step}: {answer.text}")
                moments[index] = time.perf_counter()
        if time.perf_counter() > until:
            raise click.ClickException(f"step {step}: {len(answers) - len(moments)} answers after {LIMIT_S:.0f} s")
        time.sleep(2e-5)
    return list(moments.values())


@click.command()
@click.option("--workers", multiple=True, type=click.IntRange(2), default=(2, 12), show_default=True)
@click.option("--servers", "num_servers", type=click.IntRange(1), default=4, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=60, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Of a server, for a step; default: as fleetrun has it.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    workers: tuple[int, ...], num_servers: int, steps: int, threads: int | None, rounds: int, path: Path | None
) -> None:
    threads = threads or min(MOST_THREADS, len(os.sched_getaffinity(0)))
    os.environ["FLEET_STEP_THREADS"] = str(threads)
    runs = [measure(count, num_servers, steps) for _ in range(rounds) for count in workers]
    cases = []
    for name in dict.fromkeys(run["case"] for run in runs):
        own = [run for run in runs if run["case"] == name]
        figures = {part: [run[part] for run in own] for part in ("first_ms", "last_ms", "server_cpu_ms")}
        cases.append({"case": name, **{part: statistics.median(raw) for part, raw in figures.items()}, "raw": figures})
        text = ", ".join(f"{part} {statistics.median(raw):.2f}" for part, raw in figures.items())
        Console().print(f"{name}: {text}")
    if path is not None:
        command = (
            f"python benchmarks/step.py --servers {num_servers} --steps {steps} --threads {threads} --rounds {rounds}"
        )
        write_results(path, cases, command=" ".join([command, *(f"--workers {count}" for count in workers)]))


if __name__ == "__main__":
    main()
