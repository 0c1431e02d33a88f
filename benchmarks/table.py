"""How fast is a table, and how large? Against the same rows by their number, without a hash table, a lock or a request.

python benchmarks/table.py --json benchmarks/results/table.json
python benchmarks/table.py --fill 100000000 --json benchmarks/results/table_fill.json

The first pulls and pushes a million keys of a table of 20 million rows; the limit of a pull is a gather of the rows
from one array, that of a push Adagrad on them in place. The second fills a table from nothing. One thread each.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from harness import Timing, write_results

from fleet import _native

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Call = Callable[[], object]

ROOT = Path(__file__).resolve().parent.parent
BATCH = 100_000  # keys of one push while a table is filled
LR = 0.05
PULL_GOAL, PUSH_GOAL, BYTES_GOAL, FILL_GOAL = 0.50, 0.35, 24, 0.60


def key_of(rows: Keys) -> Keys:
    """The key of a row number: distinct, and spread over the whole int64 range as hashed ids are."""
    return (rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.int64)


def make_table(width: int) -> _native.Table:
    return _native.Table("rows", width, "adagrad", {}, "uniform", {"low": -0.01, "high": 0.01}, "always", {})


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


class Filling:
    """A table that is filled by pushes of BATCH new keys, as a server gets them: distinct and ascending."""

    def __init__(self, width: int) -> None:
        self.grads = np.full((BATCH, width), 0.1, dtype=np.float32)
        first = make_table(width)
        first.push(key_of(np.arange(BATCH)), self.grads, step=1, lr=LR)  # what the first push of a process allocates
        del first
        self.before = resident_bytes()
        self.table = make_table(width)
        self.num_rows = 0
        self.wall_s = self.cpu_s = 0.0

    def fill(self, num_rows: int) -> None:
        while self.num_rows < num_rows:
            count = min(BATCH, num_rows - self.num_rows)
            keys = np.sort(key_of(np.arange(self.num_rows, self.num_rows + count)))
            wall, cpu = time.perf_counter(), time.thread_time()
            self.table.push(keys, self.grads[:count], step=1, lr=LR)
            self.wall_s += time.perf_counter() - wall
            self.cpu_s += time.thread_time() - cpu
            self.num_rows += count

    def memory(self) -> dict[str, Any]:
        """Bytes of each row: its values and state, and all it takes by the table's own count and by the system's."""
        payload = 4 * (self.table.width + self.table.state_width)
        counted = self.table.memory_bytes / self.num_rows
        resident = (resident_bytes() - self.before) / self.num_rows
        verdict = "ok" if max(counted, resident) <= payload + BYTES_GOAL else "MISSED"
        print(
            f"bytes per row: payload {payload}, table {counted:.1f}, resident {resident:.1f} "
            f"(goal <= {payload + BYTES_GOAL}) {verdict}",
            flush=True,
        )
        return {"payload": payload, "counted": counted, "resident": resident, "goal": payload + BYTES_GOAL}


class Limits:
    """The rows of a table in one array, in large pages as the table's."""

    def __init__(self, num_rows: int, width: int) -> None:
        library = ROOT / "build" / "limits.so"
        source = Path(__file__).parent / "native" / "limits.cc"
        library.parent.mkdir(exist_ok=True)
        flags = ["-O3", "-fno-math-errno", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run([os.environ.get("CXX", "c++"), *flags, source, "-o", library], check=True)
        native = ctypes.CDLL(str(library))
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        native.gather.argtypes = [pointer, size, size, pointer, size, pointer]
        native.scatter.argtypes = [pointer, size, pointer, size, pointer, ctypes.c_float]
        self._native = native
        self._width = width
        memory = mmap.mmap(-1, num_rows * width * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        self._rows: Floats = np.frombuffer(memory, dtype=np.float32)
        self._rows[:] = 0.1

    def gather(self, rows: Keys) -> Floats:
        out = np.empty((len(rows), self._width), dtype=np.float32)
        self._native.gather(
            self._rows.ctypes.data, 2 * self._width, self._width, rows.ctypes.data, len(rows), out.ctypes.data
        )
        return out

    def scatter(self, rows: Keys, grads: Floats) -> None:
        self._native.scatter(self._rows.ctypes.data, self._width, rows.ctypes.data, len(rows), grads.ctypes.data, LR)


def requests(num_rows: int, num_keys: int, *, repeated: bool) -> list[tuple[Keys, Keys]]:
    """Keys and their row numbers, several times so that no cache holds them.

    As a server gets them, distinct and ascending; or as they come, unsorted and each about twice.
    """
    rng = np.random.default_rng(1)
    made = []
    for _ in range(3):
        if repeated:
            rows = rng.choice(rng.integers(0, num_rows, num_keys // 2), num_keys)
            made.append((key_of(rows), rows))
        else:
            rows = rng.choice(num_rows, num_keys, replace=False)
            order = np.argsort(key_of(rows))
            made.append((key_of(rows)[order], rows[order]))
    return made


def alternate(contestants: Mapping[str, Call], repeats: int, warmup: int = 2) -> dict[str, tuple[Timing, Timing]]:
    """Wall time and the thread's own time of each contestant, taken in turns."""
    raw: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in contestants}
    for turn in range(warmup + repeats):
        for name, call in contestants.items():
            wall, cpu = time.perf_counter(), time.thread_time()
            result = call()
            elapsed = time.perf_counter() - wall, time.thread_time() - cpu
            del result  # freeing it is not part of the next contestant's time
            if turn >= warmup:
                for seconds, spent in zip(raw[name], elapsed, strict=True):
                    seconds.append(spent)
    return {name: (Timing(wall), Timing(cpu)) for name, (wall, cpu) in raw.items()}


def compare(name: str, contestants: Mapping[str, Call], goal: float, num_keys: int, repeats: int) -> dict[str, Any]:
    """Time a table against its limit, the second contestant, and say which share of the limit's speed it has."""
    timings = alternate(contestants, repeats)
    (wall, cpu), (limit_wall, limit_cpu) = timings.values()
    share, cpu_share = limit_wall.median_s / wall.median_s, limit_cpu.median_s / cpu.median_s
    columns = "  ".join(
        f"{who} {w.median_s * 1e3:7.1f} ms ±{w.spread * 50:2.0f}% (cpu {c.median_s * 1e3:7.1f})"
        for who, (w, c) in timings.items()
    )
    verdict = "ok" if share >= goal else "MISSED"
    print(
        f"{name:30} {columns}  {num_keys / wall.median_s / 1e6:5.1f} M keys/s  "
        f"{share:4.0%} of the limit (cpu {cpu_share:4.0%}; goal {goal:.0%}) {verdict}",
        flush=True,
    )
    return {
        "name": name,
        "timings": {who: {"wall": w.to_json(), "thread_cpu": c.to_json()} for who, (w, c) in timings.items()},
        "share_of_limit": share,
        "share_of_limit_cpu": cpu_share,
        "goal": goal,
    }


def _pull(table: _native.Table, keys: Iterator[Keys]) -> object:
    return table.pull(next(keys))


def _push(table: _native.Table, keys: Iterator[Keys], grads: Floats) -> object:
    return table.push(next(keys), grads, step=2, lr=LR)


def _gather(limits: Limits, rows: Iterator[Keys]) -> object:
    return limits.gather(next(rows))


def _scatter(limits: Limits, rows: Iterator[Keys], grads: Floats) -> None:
    limits.scatter(next(rows), grads)


def compare_all(num_rows: int, num_keys: int, width: int, repeats: int) -> list[dict[str, Any]]:
    filling = Filling(width)
    filling.fill(num_rows)
    print(f"filled {num_rows:,} rows of width {width} at {num_rows / filling.wall_s / 1e6:.2f} M rows/s", flush=True)
    records: list[dict[str, Any]] = [{"name": "memory", **filling.memory()}]
    limits = Limits(num_rows, width)
    table = filling.table
    grads = np.random.default_rng(2).normal(size=(num_keys, width)).astype(np.float32)
    for order, repeated in (("distinct, ascending", False), ("unsorted, repeated", True)):
        made = requests(num_rows, num_keys, repeated=repeated)
        keys, rows = (cycle([each[side] for each in made]) for side in (0, 1))
        pulls: dict[str, Call] = {"fleet": partial(_pull, table, keys), "gather": partial(_gather, limits, rows)}
        pushes: dict[str, Call] = {
            "fleet": partial(_push, table, keys, grads),
            "scatter": partial(_scatter, limits, rows, grads),
        }
        records.append(compare(f"pull {order}", pulls, PULL_GOAL, num_keys, repeats))
        records.append(compare(f"push {order}", pushes, PUSH_GOAL, num_keys, repeats))
    return records


def fill(num_rows: int, width: int) -> list[dict[str, Any]]:
    """Fill a table; the rate over each tenth, and that of the last against that of the first."""
    filling = Filling(width)
    records: list[dict[str, Any]] = []
    for tenth in range(1, 11):
        rows, wall, cpu = filling.num_rows, filling.wall_s, filling.cpu_s
        filling.fill(num_rows * tenth // 10)
        rows = filling.num_rows - rows
        rate, cpu_rate = rows / (filling.wall_s - wall), rows / (filling.cpu_s - cpu)
        records.append({"name": "fill", "rows": filling.num_rows, "rows_per_s": rate, "rows_per_cpu_s": cpu_rate})
        print(f"{filling.num_rows:12,} rows  {rate / 1e6:6.3f} M rows/s (cpu {cpu_rate / 1e6:6.3f})", flush=True)
    ratio = records[-1]["rows_per_s"] / records[0]["rows_per_s"]
    cpu_ratio = records[-1]["rows_per_cpu_s"] / records[0]["rows_per_cpu_s"]
    print(f"last tenth against first: {ratio:.0%} (cpu {cpu_ratio:.0%}; goal {FILL_GOAL:.0%})", flush=True)
    records.append({"name": "last against first", "ratio": ratio, "ratio_cpu": cpu_ratio, "goal": FILL_GOAL})
    return [*records, {"name": "memory", **filling.memory()}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the table")
    parser.add_argument("--n", type=int, default=1_000_000, help="keys of a request")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--fill", type=int, metavar="ROWS", help="fill a table of width 8 instead")
    parser.add_argument("--json", type=Path, help="write the results file here")
    args = parser.parse_args()
    _native.set_threads(1)
    if args.fill:
        records, more = fill(args.fill, 8), {"num_rows": args.fill, "width": 8}
    else:
        records = compare_all(args.rows, args.n, 16, args.repeats)
        more = {"num_rows": args.rows, "num_keys": args.n, "width": 16}
    if args.json:
        write_results(args.json, records, rule="adagrad", **more)


if __name__ == "__main__":
    main()
