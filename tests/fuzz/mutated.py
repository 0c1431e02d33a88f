"""Sends FUZZ_MESSAGES mutated messages to a real server (`make fuzz`): each is refused whole or does what it says.

Beside the server, a service in this process gets every message that the server has taken, and no other. After each
message both must hold the same rows and parameters: a message that was refused has changed nothing, and one that was
taken has done what the same bytes do there.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import Message

from fleet.errors import FleetError
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire import messages as wire
from fleet.ps.wire.status import TOKEN_KEY
from support.plane.fuzz_requests import JOB, right
from support.serving.serving import REAL, TOKEN, ServerProcess, is_serving, server_process, status_of

Outcomes = Counter[tuple[str, str]]
LIMIT_S = 60.0
# Calls that a changed number lets wait for what never comes; they change nothing, however they end.
WAITING = {"Pull": 0.2, "Meet": 0.2, "Save": 1.0, "Cut": 0.5}
METHODS = tuple(method for method in wire.METHODS if method != "Leave")  # the last worker's ends the server
KEYS = np.array([1, 2, 2**62, -5, 7], np.int64)


def encoded_varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    written = []
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


class Mutated:
    """A server under fire, and one in this process that is not."""

    def __init__(self, server: ServerProcess, seed: int) -> None:
        self._server = server
        self._channel = grpc.insecure_channel(str(server.endpoint), options=[("grpc.enable_http_proxy", 0)])
        self._random = random.Random(seed)
        self._reference = Service()
        self._callers = [ps_pb2.Caller(worker=worker) for worker in range(JOB.num_workers)]
        self._num_lives = 0
        self._num_pushes = 0
        self.outcomes: Outcomes = Counter()
        self.failures: dict[str, str] = {}
        """What must not happen, and a request that made it happen."""
        self._greet()
        self._both("Start", *right("Start", self._callers[0]))

    def close(self) -> None:
        """Let go of the server."""
        self._channel.close()
        self._reference.close()

    def send(self, number: int) -> None:
        """Send one message, and look at what it has done."""
        method = METHODS[number % len(METHODS)]
        request = self._mutated(method)
        code, details, _ = self._call(method, request, WAITING.get(method, LIMIT_S))
        is_taken = code is grpc.StatusCode.OK
        self.outcomes[method, code.name] += 1
        if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE):
            self.failures.setdefault(f"{method}: {code.name} {details}", request.hex())
        if is_taken and method not in WAITING and method != "Load":  # there is nothing to load
            self._apply(method, request)
        if method == "Cut" and code in (grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED):
            self._drop_cut(request)
        if is_taken and method == "Declare":
            self._greet()  # somebody may have become a former life
        if (wrong := self._differs()) is not None:
            what = f"{method}, which was {'taken' if is_taken else 'refused'} ({details}), changed {wrong}"
            raise AssertionError(f"{what}\n{request.hex()}")

    def check(self) -> None:
        """AssertionError unless the server is well."""
        assert self._server.process.poll() is None, self._server.read_log()
        assert is_serving(self._server.endpoint, timeout_s=LIMIT_S)
        assert not self.failures, self.failures

    def _greet(self) -> None:
        """Begin a new life of every worker, on both servers."""
        for caller in self._callers:
            self._num_lives += 1
            caller.incarnation = 0
            header, _ = right("Declare", caller)
            header.life = self._num_lives
            for _ in range(2):  # the first asks which life this is, the second begins it
                replies = self._both("Declare", header, [])
                assert replies[0].incarnation == replies[1].incarnation, replies
                caller.incarnation = header.caller.incarnation = replies[0].incarnation
        self._num_pushes = 0

    def _mutated(self, method: str) -> bytes:
        """A right request, damaged: as a whole, or only its header or a tensor, so that it is still a message."""
        header, tensors = right(method, self._callers[-1])
        if method == "Push":
            self._num_pushes += 1
            header.sequence = self._num_pushes
            header.steps = self._num_pushes
        pieces = [header.SerializeToString(), *(tensor.tobytes() for tensor in tensors)]
        part = self._random.randrange(3)
        if part == 0:
            return self._mutate(wire.encode(f"{method}Request", header, tensors))
        place = 0 if part == 1 else self._random.randrange(len(pieces))
        pieces[place] = self._mutate(pieces[place])
        return b"".join(
            bytes([(1 if number == 0 else 2) << 3 | 2]) + encoded_varint(len(piece)) + piece
            for number, piece in enumerate(pieces)
        )

    def _mutate(self, data: bytes) -> bytes:
        """Flip bits, replace, insert, cut, repeat: once or a few times."""
        changed, rng = bytearray(data), self._random
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            # Half of the time near the beginning, where the header is: most bytes are numbers of tensors.
            end = len(changed) if rng.random() < 0.5 else min(len(changed), 64)
            place = rng.randrange(end) if end else 0
            match rng.randrange(6):
                case 0 if changed:
                    changed[place] ^= 1 << rng.randrange(8)
                case 1 if changed:
                    changed[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
                case 2:
                    changed[place:place] = rng.randbytes(rng.randrange(1, 9))
                case 3:
                    del changed[place : place + rng.randrange(1, 9)]
                case 4:
                    del changed[place:]
                case _:
                    changed += changed[place : place + rng.randrange(1, 200)]
        return bytes(changed)

    def _apply(self, method: str, request: bytes) -> None:
        """Give the reference what the server has taken."""
        try:
            self._reference.handle(method, *wire.decode(f"{method}Request", request))
        except FleetError as error:
            raise AssertionError(f"the server took a {method} that is refused here: {error}\n{request.hex()}") from None

    def _drop_cut(self, request: bytes) -> None:
        """Open the door to pushes again, which a cut that is being made has shut."""
        header: Any = wire.decode("CutRequest", request)[0]
        header.phase = ps_pb2.CutRequest.DROP
        code, details, _ = self._call("Cut", wire.encode("CutRequest", header, ()), LIMIT_S)
        assert code is grpc.StatusCode.OK, f"a right Cut was answered with {code.name}: {details}"

    def _both(self, method: str, header: Message, tensors: wire.Tensors) -> list[Any]:
        """Make a right call to both; both headers of the answers."""
        request = wire.encode(f"{method}Request", header, tensors)
        code, details, reply = self._call(method, request, LIMIT_S)
        assert code is grpc.StatusCode.OK, f"a right {method} was answered with {code.name}: {details}"
        own, _ = self._reference.handle(method, *wire.decode(f"{method}Request", request))
        return [wire.decode(f"{method}Reply", reply)[0], own]

    def _differs(self) -> str | None:
        """What the two servers do not agree about; None if all is equal."""
        header, _ = right("Pull", self._callers[0])
        request = wire.encode("PullRequest", header, [KEYS, KEYS])
        code, details, reply = self._call("Pull", request, LIMIT_S)
        assert code is grpc.StatusCode.OK, f"a right Pull was answered with {code.name}: {details}"
        theirs, rows = wire.decode("PullReply", reply)
        ours, expected = self._reference.handle("Pull", *wire.decode("PullRequest", request))
        theirs.ClearField("data_port")  # the other has no network
        if theirs != ours:
            return f"the version: {theirs} is not {ours}"
        names = ("the rows of ads", "the rows of ads_half", "the dense parameters")
        for name, found, wanted in zip(names, rows, expected, strict=True):
            if bytes(found) != np.asarray(wanted).tobytes():
                return name
        return None

    def _call(self, method: str, request: bytes, limit_s: float) -> tuple[grpc.StatusCode, str, bytes]:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"/{wire.SERVICE}/{method}")
        started = call.future(request, timeout=limit_s, metadata=((TOKEN_KEY, TOKEN),), wait_for_ready=True)
        code, details = status_of(started.exception())
        return code, details, started.result() if code is grpc.StatusCode.OK else b""


def fuzz(num_messages: int, seed: int) -> Outcomes:
    """Send so many messages; AssertionError where one does what it must not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "saved").mkdir()
        with server_process((*REAL, "--root", folder), cwd=Path(folder)) as server:
            attack = Mutated(server, seed)
            try:
                for number in range(num_messages):
                    attack.send(number)
                attack.check()
            finally:
                attack.close()
            return attack.outcomes


def main() -> int:
    """Say how the messages ended."""
    num_messages = int(os.environ.get("FUZZ_MESSAGES", "10000"))
    seed = int(os.environ.get("FUZZ_SEED", str(random.randrange(10**6))))
    print(f"sending {num_messages} mutated messages, seed {seed}", flush=True)
    outcomes = fuzz(num_messages, seed)
    for (method, outcome), count in sorted(outcomes.items()):
        print(f"{method:8} {outcome:20} {count:7}")
    print(f"{sum(outcomes.values())} messages: no crash, and no effect but that of those that were taken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
