"""Sends nonsense to a real server process for FUZZ_S seconds (`make fuzz`), and checks that it goes on serving.

Pulls and pushes go over its data plane as well. Half of the time the server knows no job yet, half of the time it has
one. After every batch it must still be healthy and answer a right call; at the end its memory must not have exploded.
An answer of INTERNAL counts as a failure: the service met something that it does not check.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import psutil
from hypothesis import HealthCheck, Phase, given, seed, settings

from fleet.ps.proto import ps_pb2
from fleet.ps.wire import messages as wire
from fleet.ps.wire.status import TOKEN_KEY
from support.plane import raw_http2, raw_plane
from support.plane.fuzz_requests import CUT, JOB, NUM_DENSE, WIDTH, end_of_cut, requests, right
from support.serving.serving import REAL, TOKEN, ServerProcess, is_serving, server_process, status_of

Outcomes = Counter[tuple[str, str]]
# A call that takes longer than this is stuck.
LIMIT_S = 60.0
BATCH = 25
MAX_GROWTH_BYTES = 512 << 20
# What a server may ask of the machine beyond what it has when it starts, so that a bug found here stays here.
ROOM_BYTES = 4 << 30
_PLANE = {"Pull": raw_plane.PULL, "Push": raw_plane.PUSH}
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class Fuzz:
    """One server under fire."""

    def __init__(self, server: ServerProcess, outcomes: Outcomes) -> None:
        self._server = server
        self._outcomes = outcomes
        self._channel = grpc.insecure_channel(str(server.endpoint), options=[("grpc.enable_http_proxy", 0)])
        self._caller = ps_pb2.Caller(worker=JOB.num_workers - 1, incarnation=time.time_ns())
        self._has_job = False
        self._memory = psutil.Process(server.process.pid)
        self._first_bytes = self._memory.memory_info().rss
        self.failures: dict[str, str] = {}
        """What must not happen, and a request that made it happen."""
        self._is_lost = False
        room = self._memory.memory_info().vms + ROOM_BYTES
        self._memory.rlimit(psutil.RLIMIT_AS, (room, room))

    def declare(self) -> None:
        """Give the server a job, so that the other calls get further."""
        for worker in range(JOB.num_workers):  # the last one is the caller from then on
            self._caller.worker = worker
            header, _ = wire.decode("DeclareReply", self._must("Declare"))
        assert isinstance(header, ps_pb2.DeclareReply.Header)
        self._caller.instance = header.instance
        self._must("Start")
        self._has_job = True

    def run(self, seconds: float, number: int) -> None:
        """Go on for so long; the number makes one run differ from another."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._raw(number, end)
            self._check()
            self._call("Cut", end_of_cut(CUT, self._caller))
            for method in wire.METHODS:
                if time.monotonic() < end:
                    self._batch(method, number)
                    self._check()
                    self._call("Cut", end_of_cut(CUT, self._caller))
            number += 1

    def finish(self) -> None:
        """Look at the memory, and close."""
        self._channel.close()
        growth = self._memory.memory_info().rss - self._first_bytes
        if growth > MAX_GROWTH_BYTES:
            self.failures[f"the server's memory grew by {growth >> 20} MiB"] = ""

    def _batch(self, method: str, number: int) -> None:
        @seed(number)
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(requests(method, self._caller))
        def one(request: bytes) -> None:
            if self._is_lost:
                return
            if method in _PLANE and not self._is_plane_refused(method, request):
                return
            code, details, _ = self._call(method, request)
            self._outcomes[method, "no message" if f"not a {method}Request" in details else code.name] += 1
            is_stuck = code is grpc.StatusCode.DEADLINE_EXCEEDED and details == "Deadline Exceeded"
            self._is_lost = is_stuck or code is grpc.StatusCode.UNAVAILABLE
            if self._is_lost or code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
                self.failures.setdefault(f"{method}: {code.name} {details}", request.hex())

        one()

    def _is_plane_refused(self, method: str, request: bytes) -> bool:
        """Whether the data plane refuses a request: one that it takes has been done."""
        with raw_plane.connection(self._server.endpoint, is_welcome=True) as raw:
            raw.settimeout(LIMIT_S)
            whole = raw_plane.head(raw_plane.REQUEST, len(request), method=_PLANE[method]) + request
            begin, end = len(request) // 3, len(request) // 2
            if len(request) % 2 and begin < end:  # a part of it ahead: that makes no difference
                part = (7, begin, end - begin)
                whole = raw_plane.ahead(7, request[begin:end])
                whole += raw_plane.join(request, part, method=_PLANE[method])
            raw.sendall(whole)
            kind, number, text = raw_plane.read(raw)
        code = _CODES[number] if kind == raw_plane.ERROR else grpc.StatusCode.OK
        self._outcomes[f"{method} *", "no message" if b"not a " in text and kind == raw_plane.ERROR else code.name] += 1
        if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
            self.failures.setdefault(f"{method} by the data plane: {code.name} {text!r}", request.hex())
        return code is not grpc.StatusCode.OK

    def _raw(self, number: int, end: float) -> None:
        """Bytes on the port: random ones, frames without sense, and good calls that are damaged."""
        rng = random.Random(number)
        method = rng.choice(wire.METHODS)
        header, tensors = right(method, self._caller)
        good = b"".join(
            [
                raw_http2.settings(),
                raw_http2.headers("Stats" if method == "Leave" else method, TOKEN),
                raw_http2.body(wire.encode(f"{method}Request", header, tensors)),
            ]
        )
        for _ in range(BATCH):
            if time.monotonic() > end:
                return
            place = rng.randrange(len(good))
            frames = [
                raw_http2.frame(rng.randrange(12), rng.randrange(256), rng.randrange(5), rng.randbytes(30))
                for _ in range(5)
            ]
            sent = rng.choice(
                [
                    rng.randbytes(rng.randrange(1, 5000)),
                    raw_http2.settings() + b"".join(frames),
                    good[:place] + rng.randbytes(rng.randrange(6)) + good[place + 3 :],
                ]
            )
            with suppress(OSError), raw_http2.connection(self._server.endpoint) as raw:
                raw.sendall(sent)
                answer = raw_http2.read_until_closed(raw, 0.02)
                self._outcomes["bytes", "answered" if answer else "silence"] += 1

    def _check(self) -> None:
        if (code := self._server.process.poll()) is not None:
            raise AssertionError(f"the server ended with {code}: {self.failures}\n{self._server.read_log()}")
        assert not self._is_lost, self.failures
        assert is_serving(self._server.endpoint, timeout_s=LIMIT_S)
        if self._has_job:
            self._must("Stats")
            _, tensors = wire.decode("PullReply", self._must("Pull"))
            sizes = [np.frombuffer(tensor, np.float32).size for tensor in tensors]
            assert sizes == [4 * WIDTH, 4 * WIDTH, NUM_DENSE], sizes

    def _must(self, method: str) -> bytes:
        code, details, reply = self._call(method, wire.encode(f"{method}Request", *right(method, self._caller)))
        assert code is grpc.StatusCode.OK, f"a right {method} was answered with {code.name}: {details}"
        return reply

    def _call(self, method: str, request: bytes) -> tuple[grpc.StatusCode, str, bytes]:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"/{wire.SERVICE}/{method}")
        started = call.future(request, timeout=LIMIT_S, metadata=((TOKEN_KEY, TOKEN),), wait_for_ready=True)
        code, details = status_of(started.exception())
        return code, details, started.result() if code is grpc.StatusCode.OK else b""


def fuzz(seconds: float, number: int, program: Sequence[str] = REAL) -> tuple[Outcomes, dict[str, str]]:
    """Fuzz a server without a job, then one with it; returns how calls ended, and what must not have happened."""
    outcomes: Outcomes = Counter()
    failures: dict[str, str] = {}
    for has_job in (False, True):
        # What a server saves goes into a folder of its own.
        with tempfile.TemporaryDirectory() as folder, server_process(program, cwd=Path(folder)) as server:
            Path(folder, "saved").mkdir()
            attack = Fuzz(server, outcomes)
            if has_job:
                attack.declare()
            attack.run(seconds / 2, number)
            attack.finish()
            failures |= attack.failures
    return outcomes, failures


def main() -> int:
    seconds = float(os.environ.get("FUZZ_S", "60"))
    number = int(os.environ.get("FUZZ_SEED", str(random.randrange(10**6))))
    print(f"fuzzing for {seconds:g} s, seed {number}, job of {len(JOB.to_json())} bytes", flush=True)
    outcomes, failures = fuzz(seconds, number)
    for (method, outcome), count in sorted(outcomes.items()):
        print(f"{method:8} {outcome:20} {count:7}")
    print(f"{sum(outcomes.values())} calls, {len(failures)} kinds of failure")
    for failure, request in failures.items():
        print(f"{failure}\n    {request[:200]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
