"""Fills a table larger than memory without a job, as fast as the native core does, and saves it as a checkpoint.

    python benchmarks/large_fill.py --rows 600000000 --memory 4G --threads 4 --folder build/large
    python benchmarks/large_table.py --rows 600000000 --memory 4G --loaded build/large/checkpoint

Every key is pushed once, 100,000 at a time by some threads; the rate is quoted by CPU time, too. The checkpoint has the
model of `large_table.py`, and in its table `large` links to the files that were written.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from harness import write_results

import fleet
from fleet import _native, checkpoint
from fleet.strategy.sizes import size_bytes

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
from large_fleet import CTR, FILL, WIDTH, key_of


class Filling:
    """A table, and the threads that fill it."""

    def __init__(self, rows: int, memory: int, folder: Path) -> None:
        first = {"low": -0.01, "high": 0.01}
        self.table = _native.Table(
            "large",
            WIDTH,
            "adagrad",
            {},
            "uniform",
            first,
            "always",
            {},
            memory_bytes=memory,
            folder=str(folder),
        )
        self._rows, self._next, self._lock = rows, 0, threading.Lock()
        self.push_cpu_s = 0.0

    def work(self) -> None:
        used, grads = 0.0, np.full((FILL, WIDTH), 1e-3, np.float32)
        while True:
            with self._lock:
                first = self._next
                self._next += FILL
            if first >= self._rows:
                break
            keys = np.sort(key_of(np.arange(first, min(self._rows, first + FILL))))
            begin = time.thread_time()
            self.table.push(keys, grads[: len(keys)], step=1 + first // FILL, lr=0.05)
            used += time.thread_time() - begin
        with self._lock:
            self.push_cpu_s += used

    def figures(self, began_at: float) -> dict[str, Any]:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        spent = {"wall_s": time.monotonic() - began_at, "process_cpu_s": time.process_time()}
        return {"rows": len(self.table), **spent, "rss_bytes": resident, "disk": self.table.tier_counts()}


def save_model(folder: Path) -> None:
    """A checkpoint of the model, its tables empty."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    torch.manual_seed(0)
    model = fleet.distributed_model(CTR("1G"))
    fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-4))
    fleet.init_worker()
    fleet.save_persistables(folder)
    fleet.stop_worker()


def save_with(table: _native.Table, base: Path, folder: Path) -> None:
    """That checkpoint with the rows of a table in the place of none."""
    known = checkpoint.read_manifest(checkpoint.find(base))
    with checkpoint.saving(folder) as writing:
        pieces = [piece for piece in known.pieces if getattr(piece, "table", "") != "large"]
        for piece in pieces:
            shutil.copyfile(base / piece.file.name, writing / piece.file.name)
        pieces += checkpoint.save_sealed(table, "large", writing, 0, 1, dtype="float32", rule="adagrad")
        checkpoint.commit(writing, folder, replace(known, pieces=tuple(pieces)))


@click.command()
@click.option("--rows", default=20_000_000, show_default=True)
@click.option("--memory", default="140M", show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="For the files, and the checkpoint.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rows: int, memory: str, threads: int, folder: Path, path: Path | None) -> None:
    folder.mkdir(parents=True)
    os.environ["FLEET_TABLE_DIR"] = str(folder / "tables")
    save_model(folder / "model")
    filling, began_at = Filling(rows, size_bytes("--memory", memory), folder / "rows"), time.monotonic()
    team = [threading.Thread(target=filling.work) for _ in range(threads)]
    for one in team:
        one.start()
    for one in team:
        one.join()
    filled = filling.figures(began_at)
    filled |= {"rows_per_s": rows / filled["wall_s"], "rows_per_cpu_s": rows / filled["process_cpu_s"]}
    print(filled, flush=True)
    began_at = time.monotonic()
    save_with(filling.table, folder / "model", folder / "checkpoint")
    saved = {"wall_s": time.monotonic() - began_at}
    print("saved", saved, flush=True)
    if path is not None:
        write_results(path, [{"case": "fill", **filled}, {"case": "save", **saved}], memory=memory, threads=threads)


if __name__ == "__main__":
    main()
