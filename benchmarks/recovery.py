"""How long is a server away that was killed? One with 10 million rows (dim 8, Adagrad), in a process of its own.

    python benchmarks/recovery.py --json benchmarks/results/recovery.json

The server is filled, its snapshot is complete, and some more pushes are in its journal; then it is killed (SIGKILL) and
started again. Measured are the recovery, as the server itself says it, and the seconds from the kill to the answer to
the first push after it, the start of Python included.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import click
import numpy as np
from harness import write_results
from rich.console import Console
from rich.progress import track

from fleet.net import Hold
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal.files import snapshots_in
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.trust.own_token import token_for

WIDTH = 8
BATCH = 100_000
TAIL = 100
"""Pushes of a tenth of a batch that are in the journal, and in no snapshot."""
LIMIT_S = 300.0


class Server:
    """A server and its only worker."""

    def __init__(self, folder: Path, log: IO[bytes]) -> None:
        self._hold = Hold.any_port()
        self._folder, self._log = folder, log
        self.process = self._start()
        self._transport = GrpcTransport(str(self._hold.endpoint), token_for(self._hold.endpoint))
        table = TableSpec("t", WIDTH, rules.Adagrad(lr=0.1), initializers.Constant(0.0), entries.AlwaysEntry())
        job = JobSpec(1, 1, "async", "skip", (table,), DenseSpec((), (), ()))
        self._caller = ps_pb2.Caller(worker=0)
        for _ in range(2):  # the first only asks which life this is
            header = ps_pb2.DeclareRequest.Header(caller=self._caller, job=job.to_json(), life=1)
            reply: Any = self._call("Declare", header, ())
            self._caller.incarnation, self._caller.instance = reply.incarnation, reply.instance
        self._sequence = 0

    def push(self, keys: Any) -> None:
        self._sequence += 1
        header = ps_pb2.PushRequest.Header(
            caller=self._caller, sequence=self._sequence, tables=[ps_pb2.PushRequest.Table(table=0, lr=0.1)]
        )
        self._call("Push", header, (keys, np.ones((len(keys), WIDTH), np.float32)))

    def kill_and_wait(self) -> float:
        """Kill it, start it again, and return the seconds until a push was answered."""
        killed_at = time.monotonic()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = self._start()
        self.push(np.arange(10, dtype=np.int64))
        return time.monotonic() - killed_at

    def close(self) -> None:
        self._transport.close()
        self.process.kill()
        self.process.wait()
        self._hold.close()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "fleet.ps.server", "--endpoint", str(self._hold.endpoint), "--index", "0"]
        settings = {"FLEET_DURABLE": str(self._folder), "FLEET_JOB_ID": "benchmark"}
        return subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=self._log)

    def _call(self, method: str, header: Any, tensors: Any) -> Any:
        return ServerCall(self._transport, method, header, tensors, LIMIT_S, LIMIT_S).result()[0]


@click.command()
@click.option("--rows", default=10_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True, help="How often it is killed.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rows: int, rounds: int, path: Path | None) -> None:
    with TemporaryDirectory() as name, Path(name, "log").open("w+b") as log:
        folder = Path(name, "durable")
        server = Server(folder, log)
        try:
            for begin in track([*range(0, rows, BATCH), *range(0, rows, BATCH)], "filling the table"):
                server.push(np.arange(begin, min(rows, begin + BATCH), dtype=np.int64))
            _await_snapshot(folder)
            away = []
            for _ in range(rounds):
                for number in range(TAIL):
                    server.push(np.arange(number, rows, rows * 10 // BATCH, dtype=np.int64))
                away.append(server.kill_and_wait())
        finally:
            server.close()
        log.seek(0)
        said = re.findall(r"recovered (\d+) rows .* in ([\d.]+) s: (\d+) records", log.read().decode())
    recovery = [float(seconds) for _, seconds, _ in said if seconds]
    case = {
        "case": f"{rows} rows of {WIDTH}, Adagrad",
        "recovery_s": recovery,
        "median_recovery_s": statistics.median(recovery),
        "away_s": away,
        "median_away_s": statistics.median(away),
        "records_after_the_snapshot": [int(count) for *_, count in said],
    }
    Console().print(case)
    if path is not None:
        write_results(path, [case], command=f"python benchmarks/recovery.py --rows {rows} --rounds {rounds}")


def _await_snapshot(folder: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not any(snapshots_in(one) for one in folder.iterdir()):
        if time.monotonic() > deadline:
            raise click.ClickException("the server takes no snapshot")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
