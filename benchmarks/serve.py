"""How fast are lookups while changes come? fleet-serve in process and by gRPC, beside Redis MGET, in one run.

python benchmarks/serve.py --json benchmarks/results/serve.json                 20 million rows of 16: 6 GB of memory
python benchmarks/serve.py --rows 1000000 --turns 3 --seconds 1                 to try it
python benchmarks/serve.py --no_redis                                           where there is no redis-server

Each request has 1,000 random keys. Meanwhile 10,000 rows change each half second, in all contestants. A server (gRPC,
Redis) has a core of its own and its caller another; in process one core does everything, the changes too. Redis gets
what is best for it: commands made beforehand, answers of a size that is known, which are read and not taken apart.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from harness import write_results

from fleet.checkpoint import Unseen
from fleet.net import LOOPBACK, Endpoint
from fleet_serve.client import ServingClient
from fleet_serve.doors.answers import Answers
from fleet_serve.doors.grpc_door import GrpcDoor
from fleet_serve.rows.bases import open_base
from fleet_serve.rows.model import ServedModel, ServedTable, TableChange
from fleet_serve.rows.saved import CHUNK_ROWS, Chunks, TableSource

Keys = npt.NDArray[np.int64]
Ask = Callable[[int], object]
PREPARED = 256
"""Requests that are made beforehand, and asked in turn."""
CHANGED, EVERY_S = 10_000, 0.5


def key_of(rows: Keys) -> Keys:
    """The key of a row number: distinct, and spread over the whole int64 range as hashed ids are."""
    return (rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.int64)


def values_of(rows: Keys, width: int) -> npt.NDArray[np.float32]:
    return ((rows[:, None] + np.arange(width)) % 1000).astype(np.float32)


def chunks(num_rows: int, width: int) -> Chunks:
    for begin in range(0, num_rows, CHUNK_ROWS):
        rows = np.arange(begin, min(begin + CHUNK_ROWS, num_rows))
        yield key_of(rows), values_of(rows, width)


def made_model(folder: Path, asked: argparse.Namespace, form: str) -> ServedModel:
    source = TableSource(asked.width, asked.rows, Unseen(), lambda: None, lambda: chunks(asked.rows, asked.width))
    path = folder / f"rows.{form}.base"
    base, held = open_base(path, "rows", source, form, in_memory=asked.in_memory)
    return ServedModel("base", [ServedTable("rows", asked.width, form, Unseen(), base, held, None)], [0], [path])


@contextmanager
def changing(change: Callable[[Keys, int], object], num_rows: int) -> Iterator[None]:
    """Rows change as long as this lasts."""
    over, rng = threading.Event(), np.random.default_rng(3)

    def run() -> None:
        number = 0
        while not over.wait(EVERY_S):
            number += 1
            change(np.unique(rng.integers(0, num_rows, CHANGED)), number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def changes_of(model: ServedModel, width: int) -> Callable[[Keys, int], object]:
    none = np.empty(0, np.int64)
    return lambda rows, number: model.apply(
        0, model.version.numbers[0] + 1, [TableChange("rows", key_of(rows), values_of(rows, width) + number, none)]
    )


def serve(folder: Path, asked: argparse.Namespace, core: int, pipe: Any) -> None:
    """A process that answers by gRPC until it is told to end."""
    os.sched_setaffinity(0, {core})
    model = made_model(folder, asked, "float32")
    answers = Answers(64 << 20)
    answers.serve(model)
    door = GrpcDoor(answers, Endpoint(LOOPBACK, 0), None, threads=4)
    door.start()
    with changing(changes_of(model, asked.width), asked.rows):
        pipe.send(str(door.endpoint))
        pipe.recv()
    door.stop(1.0)


@contextmanager
def by_grpc(folder: Path, asked: argparse.Namespace, requests: list[Keys], core: int) -> Iterator[Ask]:
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(folder, asked, core, theirs))
    process.start()
    with ServingClient(ours.recv()) as client:
        found, _ = client.lookup({"rows": key_of(np.arange(3))})
        assert found["rows"].shape == (3, asked.width)
        yield lambda number: client.lookup({"rows": requests[number]})
    ours.send(None)
    process.join()


class Redis:
    """A connection that sends what was made beforehand, and reads as many bytes as must come."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)

    def ask(self, command: bytes, num_bytes: int) -> bytearray:
        self._socket.sendall(command)
        data = bytearray(num_bytes)
        view, done = memoryview(data), 0
        while done < num_bytes:
            got = self._socket.recv_into(view[done:])
            assert got > 0, "Redis has gone"
            done += got
        return data

    def close(self) -> None:
        self._socket.close()


def command_of(name: bytes, parts: list[bytes]) -> bytes:
    sized = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n$%d\r\n%s\r\n" % (len(parts) + 1, len(name), name) + sized


def set_command(rows: Keys, values: npt.NDArray[np.float32]) -> bytes:
    keys = key_of(rows)
    return command_of(
        b"MSET", [part for key, row in zip(keys, values, strict=True) for part in (key.tobytes(), row.tobytes())]
    )


@contextmanager
def by_redis(folder: Path, asked: argparse.Namespace, requests: list[Keys], core: int) -> Iterator[Ask]:
    path, row_bytes = str(folder / "redis"), 4 * asked.width
    command = ["taskset", "-c", str(core), "redis-server", "--port", "0", "--unixsocket", path, "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not Path(path).exists():
        assert time.monotonic() < deadline, "redis-server does not listen"
        time.sleep(0.05)
    asking, writing = Redis(path), Redis(path)
    for begin in range(0, asked.rows, 5000):
        rows = np.arange(begin, min(begin + 5000, asked.rows))
        assert writing.ask(set_command(rows, values_of(rows, asked.width)), 5) == b"+OK\r\n"
    made = [command_of(b"MGET", [key.tobytes() for key in keys]) for keys in requests]
    each = len(b"$%d\r\n" % row_bytes) + row_bytes + 2
    size = len(b"*%d\r\n" % asked.keys) + asked.keys * each
    change = lambda rows, number: writing.ask(set_command(rows, values_of(rows, asked.width) + number), 5)  # noqa: E731
    try:
        with changing(change, asked.rows):
            yield lambda number: asking.ask(made[number], size)
    finally:
        asking.close()
        writing.close()
        process.terminate()
        process.wait()


def timed(ask: Ask, seconds: float, cores: set[int]) -> list[float]:
    """What each request took, one after the other."""
    os.sched_setaffinity(0, cores)
    for number in range(20):
        ask(number % PREPARED)
    took, number, end = [], 0, time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        ask(number % PREPARED)
        took.append(time.perf_counter() - begin)
        number += 1
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--keys", type=int, default=1000, help="of one request")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--in_memory", action="store_true", help="bases in large pages, not mapped")
    parser.add_argument("--no_redis", action="store_true")
    parser.add_argument("--folder", type=Path, help="for the files of the bases; they go at the end")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    every = sorted(os.sched_getaffinity(0))
    own, other = every[0], every[-1]
    rng = np.random.default_rng(1)
    requests = [key_of(rng.integers(0, asked.rows, asked.keys)) for _ in range(PREPARED)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=asked.folder)))
        began_at = time.perf_counter()
        models = {form: made_model(folder, asked, form) for form in ("float32", "int8")}
        print(f"bases made in {time.perf_counter() - began_at:.1f} s", flush=True)
        contestants: dict[str, Ask] = {}
        os.sched_setaffinity(0, {own})
        for name, model in models.items():
            stack.enter_context(changing(changes_of(model, asked.width), asked.rows))
            contestants[f"in process, {name}"] = lambda number, model=model: model.lookup([("rows", requests[number])])  # type: ignore[misc]
        contestants["gRPC, float32"] = stack.enter_context(by_grpc(folder, asked, requests, other))
        if not asked.no_redis:
            contestants["Redis MGET"] = stack.enter_context(by_redis(folder, asked, requests, other))
        found: dict[str, list[list[float]]] = {name: [] for name in contestants}
        for _ in range(asked.turns):
            for name, ask in contestants.items():
                found[name].append(timed(ask, asked.seconds, {own}))
        report(asked, found, models["float32"].num_changed("rows"))


def report(asked: argparse.Namespace, found: dict[str, list[list[float]]], num_changed: int) -> None:
    """Medians over the turns: keys a second, and quantiles of a request."""
    cases = []
    for name, turns in found.items():
        rates = [asked.keys * len(turn) / sum(turn) for turn in turns]
        quantiles = {q: [float(np.quantile(turn, q)) * 1e3 for turn in turns] for q in (0.5, 0.99)}
        case = {
            "case": name,
            "keys_per_s": statistics.median(rates),
            "keys_per_s_of_turns": rates,
            "p50_ms": statistics.median(quantiles[0.5]),
            "p99_ms": statistics.median(quantiles[0.99]),
            "p99_ms_of_turns": quantiles[0.99],
        }
        cases.append(case)
        low, high = min(rates), max(rates)
        print(
            f"{name:22} {case['keys_per_s']:13,.0f} keys/s ({low:,.0f} to {high:,.0f})  p50 {case['p50_ms']:.3f} ms  "
            f"p99 {case['p99_ms']:.3f} ms ({min(quantiles[0.99]):.3f} to {max(quantiles[0.99]):.3f})"
        )
    if "Redis MGET" in found:
        redis = next(case for case in cases if case["case"] == "Redis MGET")
        for case in cases:
            print(f"{case['case']:22} {case['keys_per_s'] / redis['keys_per_s']:.2f} times Redis")
    print(f"{num_changed:,} keys had changed at the end, of {asked.rows:,} rows of {asked.width}")
    if asked.json is not None:
        write_results(asked.json, cases, rows=asked.rows, width=asked.width, keys=asked.keys, num_changed=num_changed)


if __name__ == "__main__":
    main()
