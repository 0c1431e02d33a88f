"""What does a second copy cost, and how long does a job stand still when a machine burns? CTR-DNN on two machines.

    python benchmarks/standby.py --json benchmarks/results/standby.json

The machines are two launchers on one host, with a folder each: one server and one worker on each, and with `--standby`
the copy of the other's server. Quoted are medians of samples per second, and the ratio to the same durable job without
copies. Copies apply what their servers apply, so that takes cores of its own: the host should have four or more.

`--lost ROWS` measures instead, for one server with so many rows and its copy, the seconds from kill -9 of the server to
the answer to the next push, the decision about the term left out: it is written at once.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from harness import write_results
from peers import BIN, RunError
from turns import take_turns

from fleet.jobfiles.copy_notes import copy_note
from fleet.jobfiles.process_files import ProcessFiles
from fleet.jobfiles.terms import Term, Terms
from fleet.net import Hold
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.trust.own_token import token_for

SCRIPT = Path(__file__).parent / "scripts" / "ctr_fleet.py"
CASES = {
    f"{mode} {standby}": (mode, standby)
    for mode, standbys in {"async": ("none", "async", "sync"), "sync": ("none", "sync")}.items()
    for standby in standbys
}
LIMIT_S = 600.0
STEPS = 1200
"""Batches of each worker that count: enough that it is no part of the figure what fleetrun begins after ten seconds, an
interpreter that is kept ready, though with the least priority."""
WIDTH, BATCH = 8, 50_000


def train(mode: str, standby: str, folder: Path, steps: int = STEPS) -> float:
    """Run the job once: samples per second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jobs = []
    for rank in range(2):
        command: list[Any] = [BIN / "fleetrun", "--master", f"127.0.0.1:{port}", "--nnodes", 2, "--rank", rank]
        command += ["--server_num", 1, "--worker_num", 1, "--durable", folder / f"machine-{rank}"]
        command += ["--log_dir", folder / f"log-{rank}"] + ([] if standby == "none" else ["--standby", standby])
        command += [SCRIPT, "--mode", mode, "--steps", steps, "--out", folder]
        jobs.append(
            subprocess.Popen(list(map(str, command)), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )
    said = [job.communicate(timeout=LIMIT_S)[0].decode() for job in jobs]
    if any(job.returncode for job in jobs):
        raise RunError("\n".join(said)[-2000:])
    workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(2)]
    seconds = max(worker["end"] for worker in workers) - min(worker["begin"] for worker in workers)
    return float(sum(worker["samples"] for worker in workers) / seconds)


class Process:
    """A server or its copy, with a folder of its own."""

    def __init__(self, folder: Path, *, is_copy: bool) -> None:
        self.hold, self.folder = Hold.any_port(), folder
        self.terms, self.files = Terms(folder), ProcessFiles.beside(folder / "serverlog")
        self.endpoint, self._is_copy = str(self.hold.endpoint), is_copy

    def start(self, servers: str) -> None:
        settings = {
            "FLEET_DURABLE": str(self.folder),
            "FLEET_STANDBY": "SYNC",
            "FLEET_JOB_ID": "benchmark",
            "FLEET_NOTE_FILE": str(self.files.note),
            "TRAINING_ROLE": "PSERVER",
            "PADDLE_TRAINERS_NUM": "1",
            "PADDLE_PSERVERS_IP_PORT_LIST": servers,
            "POD_IP": self.hold.endpoint.host,
            "PADDLE_PORT": str(self.hold.endpoint.port),
            **({"FLEET_COPY_OF": "0"} if self._is_copy else {}),
        }
        command = [sys.executable, "-m", "fleet.ps.server"]
        log = (self.folder / "serverlog").open("wb")
        self.process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log)
        log.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.hold.close()


class Pusher:
    """The only worker."""

    def __init__(self, endpoint: str, caller: ps_pb2.Caller) -> None:
        self.caller = caller
        self._transport = GrpcTransport(endpoint, token_for(Hold.any_port().endpoint))

    def call(self, method: str, header: Any, tensors: Any = ()) -> Any:
        return ServerCall(self._transport, method, header, tensors, LIMIT_S, LIMIT_S).result()[0]

    def push(self, sequence: int, keys: Any) -> None:
        header = ps_pb2.PushRequest.Header(
            caller=self.caller, sequence=sequence, tables=[ps_pb2.PushRequest.Table(table=0, lr=0.1)]
        )
        self.call("Push", header, (keys, np.ones((len(keys), WIDTH), np.float32)))


def lost(rows: int, folder: Path) -> float:
    """Fill a server and its copy, kill the server, and return the seconds until the next push was answered."""
    server, copy = (Process(folder / name, is_copy=name == "copy") for name in ("server", "copy"))
    try:
        for process in (server, copy):
            process.folder.mkdir()
            process.terms.use(Term(1, (server.endpoint,), ("",)))
            process.start(server.endpoint)
        pusher = Pusher(server.endpoint, ps_pb2.Caller(term=1))
        table = TableSpec("t", WIDTH, rules.Adagrad(lr=0.1), initializers.Constant(0.0), entries.AlwaysEntry())
        job = JobSpec(1, 1, "async", "skip", (table,), DenseSpec((), (), ()))
        for _ in range(2):  # the first only asks which life this is
            header = ps_pb2.DeclareRequest.Header(caller=pusher.caller, job=job.to_json(), life=1)
            reply = pusher.call("Declare", header)
            pusher.caller.incarnation, pusher.caller.instance = reply.incarnation, reply.instance
        number = 0
        for begin in range(0, rows, BATCH):
            number += 1
            pusher.push(number, np.arange(begin, min(rows, begin + BATCH), dtype=np.int64))
        while (said := copy_note(copy.files.copy)) is None or not said.is_whole:
            time.sleep(0.01)
        listed, second = Term(2, (server.endpoint,), (copy.endpoint,)), Term(3, (copy.endpoint,), ("",))
        server.terms.use(listed)
        copy.terms.use(listed)
        pusher.caller.term = 2
        pusher.push(number + 1, np.arange(1000, dtype=np.int64))
        began = time.monotonic()
        server.process.kill()
        server.process.wait()
        shutil.rmtree(server.folder)
        copy.terms.use(second)
        pusher.caller.term = 3
        follower = Pusher(copy.endpoint, pusher.caller)
        follower.push(number + 2, np.arange(1000, dtype=np.int64))
        return time.monotonic() - began
    finally:
        for process in (server, copy):
            process.end()


@click.command()
@click.option("--rounds", default=7, show_default=True, help="How often each case is run.")
@click.option("--steps", default=STEPS, show_default=True, help="Batches of each worker that count.")
@click.option("--case", "chosen", type=click.Choice(tuple(CASES)), multiple=True, help="Only this. May be repeated.")
@click.option("--within-s", default=math.inf, help="Begin no other run after so many seconds.")
@click.option("--lost", "rows", type=int, help="Measure the loss of a server with so many rows instead.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    rounds: int, steps: int, chosen: tuple[str, ...], within_s: float, rows: int | None, path: Path | None
) -> None:
    failures: dict[str, str] = {}
    if rows is not None:
        seconds = []
        for _ in range(rounds):
            with TemporaryDirectory() as folder:
                seconds.append(lost(rows, Path(folder)))
        cases: list[dict[str, Any]] = [
            {"case": f"{rows} rows, lost", "raw_s": seconds, "median_s": statistics.median(seconds)}
        ]
    else:
        names = {name: CASES[name] for name in chosen or CASES}
        contestants = {name: partial(train, *one, steps=steps) for name, one in names.items()}
        found, failures = take_turns(contestants, rounds, within_s=within_s)
        medians = {name: statistics.median(rates) for name, rates in found.items() if rates}
        cases = [
            {
                "case": name,
                "raw_samples_per_s": found[name],
                "median_samples_per_s": median,
                "over_no_copy": median / medians.get(f"{CASES[name][0]} none", math.nan),
            }
            for name, median in medians.items()
        ]
    for case in cases:
        print(json.dumps(case))
    if path is not None:
        options = [*(f'--case "{one}"' for one in chosen), *([] if rows is None else [f"--lost {rows}"])]
        command = " ".join(["python benchmarks/standby.py", f"--rounds {rounds}", f"--steps {steps}", *options])
        write_results(path, cases, command=command, failures=failures)
    if failures:
        raise click.ClickException(f"failed: {failures}")


if __name__ == "__main__":
    main()
