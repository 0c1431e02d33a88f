"""Starts servers, in this process and in others, on ports that nobody else can take."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fleet.net import LOOPBACK, Endpoint, Hold
from fleet.ps.server.grpc_server import GrpcServer
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.status import TOKEN_KEY
from fleet.ps.wire.transport import Handler
from support.jobs import clean_environ

TOKEN = "the-token-of-the-job"
TOY = (str(Path(__file__).parents[1] / "plane" / "toy_service.py"), "{endpoint}")
REAL = ("-m", "fleet.ps.server", "--endpoint", "{endpoint}")
# A server that takes longer than this to start or to stop is stuck.
LIMIT_S = 120.0


@contextmanager
def serving(service: Handler, token: str | None = TOKEN) -> Iterator[GrpcServer]:
    """A server in this process."""
    server = GrpcServer(service, Endpoint(LOOPBACK, 0), token)
    server.start()
    try:
        yield server
    finally:
        assert server.stop(1.0), "calls still run"


@contextmanager
def reached(endpoint: object, token: str | None = TOKEN) -> Iterator[GrpcTransport]:
    """A worker's view of a server."""
    transport = GrpcTransport(str(endpoint), token)
    try:
        yield transport
    finally:
        transport.close()


@dataclass(frozen=True)
class ServerProcess:
    """A server in a process of its own."""

    endpoint: Endpoint
    process: subprocess.Popen[str]
    log: IO[bytes]

    def finish(self) -> tuple[int, str]:
        """Wait for its end; the exit code and what it wrote to stderr, beside the news of a server that is well."""
        code = self.process.wait(LIMIT_S)
        return code, re.sub(r"^\S+ \S+ INFO fleet\..*\n", "", self.read_log(), flags=re.MULTILINE)

    def read_log(self) -> str:
        """What it has written to stderr so far; may hold anything, since gRPC quotes strangers."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


@contextmanager
def server_process(
    program: Sequence[str],
    token: str | None = TOKEN,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[ServerProcess]:
    """A server in a process of its own, ready; `program` is TOY or REAL. The port is held here, as by fleetrun.

    `{endpoint}` in the program and in the values of the environment stands for the endpoint.
    """
    with Hold.any_port() as hold, tempfile.TemporaryFile() as log:
        settings = {name: value.format(endpoint=hold.endpoint) for name, value in (environ or {}).items()}
        settings |= {"FLEET_JOB_ID": "test", **({"FLEET_JOB_TOKEN": token} if token else {})}
        process = subprocess.Popen(
            [sys.executable, *(part.format(endpoint=hold.endpoint) for part in program)],
            env={**clean_environ(), "PYTHONPATH": str(Path(__file__).parents[2]), **settings},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,  # not a pipe: a server that says much must not wait for a reader
            text=True,
        )
        started = ServerProcess(hold.endpoint, process, log)
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said == f"Server listening on {hold.endpoint}\n", said + started.read_log()
            yield started
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def status_of(error: object) -> tuple[grpc.StatusCode, str]:
    """The status that a raw call ended with; `error` is None or what gRPC raised, which is the call itself."""
    return (error.code(), error.details() or "") if isinstance(error, grpc.Call) else (grpc.StatusCode.OK, "")


def is_serving(endpoint: object, token: str | None = TOKEN, timeout_s: float = LIMIT_S) -> bool:
    """What the health service says."""
    with grpc.insecure_channel(str(endpoint), options=[("grpc.enable_http_proxy", 0)]) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        metadata = ((TOKEN_KEY, token),) if token else ()
        reply = check(health_pb2.HealthCheckRequest(), timeout=timeout_s, metadata=metadata, wait_for_ready=True)
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
