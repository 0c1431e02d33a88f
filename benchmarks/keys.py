"""How fast are unique, split and merge of keys? Against torch.unique, numpy.take and a plain copy.

python benchmarks/keys.py --json benchmarks/results/keys.json
python benchmarks/keys.py --route 426000 --json benchmarks/results/keys_route.json

The second prepares a batch of ids for 2 servers with 1, 2, 4 and 8 threads, as many as there are cores: wall time, and
CPU time of all threads.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from harness import measure, write_results

from fleet import _native

Keys = npt.NDArray[np.int64]
Case = tuple[str, dict[str, Callable[[], object]]]

SLOTS, VOCAB = 26, 1_000_000


def scrambled(keys: Keys) -> Keys:
    """The same repeats over the whole int64 range, as hashed ids have."""
    return (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.int64)


def zipf(exponent: float, n: int) -> Keys:
    """Draws from a Zipf law over VOCAB ids, the likeliest first."""
    cdf = np.cumsum(1.0 / np.arange(1, VOCAB + 1) ** exponent)
    return np.searchsorted(cdf / cdf[-1], np.random.default_rng(2024).random(n)).astype(np.int64)


def ctr(n: int) -> Keys:
    """The ids of a click batch: 26 slots, in each a Zipf(1.1) draw from its own million ids."""
    slot = np.arange(n, dtype=np.int64) * SLOTS // n
    return zipf(1.1, n) * 7919 % VOCAB + slot * VOCAB


def unique_inputs(n: int) -> Iterator[tuple[str, Keys]]:
    rng = np.random.default_rng(0)
    yield "zipf 1.2", zipf(1.2, n)
    yield "zipf 1.05", zipf(1.05, n)
    yield "zipf 1.5", zipf(1.5, n)
    yield "zipf 1.2, hashed", scrambled(zipf(1.2, n))
    yield "ctr 26 slots", ctr(n)
    yield "ctr 26 slots, hashed", scrambled(ctr(n))
    yield "ctr, one batch of 1000", ctr(26_000)
    yield "uniform 64 bit", rng.integers(-(2**63), 2**63 - 1, n)
    yield "uniform 1M ids", rng.integers(0, VOCAB, n)
    yield "100 distinct, hashed", scrambled(rng.integers(0, 100, n))


def unique_cases(n: int) -> Iterator[Case]:
    for name, keys in unique_inputs(n):
        tensor = torch.from_numpy(keys)

        def ours(keys: Keys = keys) -> object:
            return _native.unique(keys)

        def torchs(tensor: torch.Tensor = tensor) -> object:
            return torch.unique(tensor, return_inverse=True)

        yield f"unique {name}", {"fleet": ours, "torch.unique": torchs}


def split_cases(n: int) -> Iterator[Case]:
    keys = scrambled(ctr(n))
    for num_servers in (1, 4, 64):

        def ours(num_servers: int = num_servers) -> object:
            return _native.split(keys, num_servers)

        def numpys(num_servers: int = num_servers) -> object:
            order = np.argsort(_native.server_of(keys, num_servers).astype(np.uint16), kind="stable")
            return keys[order], order

        # What the results cost when nothing has to be found out: two arrays of n written in order.
        def copies() -> object:
            return keys.copy(), keys.copy()

        yield f"split {num_servers} servers", {"fleet": ours, "numpy sort": numpys, "copy": copies}


def merge_cases(n: int) -> Iterator[Case]:
    keys = scrambled(ctr(n))
    _, order, offsets = _native.split(keys, 4)
    back = np.argsort(order)
    for width in (1, 8, 16, 32):
        rows = np.random.default_rng(0).random((n, width), dtype=np.float32)
        pieces = np.split(rows, offsets[1:-1])

        def ours(pieces: list[npt.NDArray[np.float32]] = pieces) -> object:
            return _native.merge(pieces, order)

        # numpy.take with the inverse order known beforehand, and no concatenation: less work than merge has.
        def take(rows: npt.NDArray[np.float32] = rows) -> object:
            return np.take(rows, back, axis=0)

        def copy(rows: npt.NDArray[np.float32] = rows) -> object:
            return rows.copy()

        yield f"merge width {width}", {"fleet": ours, "numpy.take": take, "copy": copy}


def route_records(n: int, repeats: int) -> list[dict[str, Any]]:
    """Several batches in turn: of one and the same, the processor learns which ids repeat."""
    every = ctr(8 * n)[np.random.default_rng(0).permutation(8 * n)]
    batches = cycle(np.ascontiguousarray(part) for part in np.split(every, 8))
    records = []
    for threads in (1, 2, 4, 8):
        if threads > len(os.sched_getaffinity(0)):
            break
        _native.set_threads(threads)
        calls = {"route": lambda: _native.route(next(batches), 2)}
        wall, cpu = (measure(calls, repeats=repeats, clock=clock)["route"] for clock in (perf_counter, process_time))
        print(f"route {n} ids, {threads} threads: {wall.median_s * 1e3:.2f} ms, cpu {cpu.median_s * 1e3:.2f} ms")
        records.append({"name": "route", "threads": threads, "wall": wall.to_json(), "cpu": cpu.to_json()})
    return records


def run(case: Case, threads: int, repeats: int) -> dict[str, Any]:
    name, contestants = case
    timings = measure(contestants, repeats=repeats)
    ours = timings["fleet"]
    ratios = {other: t.median_s / ours.median_s for other, t in timings.items() if other != "fleet"}
    columns = "  ".join(
        f"{who} {t.median_s * 1e3:8.3f} ms ±{t.spread * 50:3.0f}%"
        + (f" ({ratios[who]:5.2f}x)" if who in ratios else "")
        for who, t in timings.items()
    )
    print(f"{name:32} torch threads {threads}  {columns}", flush=True)
    return {
        "name": name,
        "torch_threads": threads,
        "timings": {who: t.to_json() for who, t in timings.items()},
        "times_faster_than": ratios,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="number of keys")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--route", type=int, metavar="N", help="only route, of N ids, on more and more threads")
    parser.add_argument("--json", type=Path, help="write the results file here")
    args = parser.parse_args()

    if args.route:
        records = route_records(args.route, args.repeats)
        if args.json:
            write_results(args.json, records, num_keys=args.route)
        return
    # The core uses one thread here. torch.unique uses as many as it is given: measure it with one and with all.
    _native.set_threads(1)
    records = []
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        records += [run(case, threads, args.repeats) for case in unique_cases(args.n)]
    for cases in (split_cases(args.n), merge_cases(args.n)):
        records += [run(case, torch.get_num_threads(), args.repeats) for case in cases]
    if args.json:
        write_results(args.json, records, num_keys=args.n)


if __name__ == "__main__":
    main()
