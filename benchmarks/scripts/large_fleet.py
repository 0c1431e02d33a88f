"""A table larger than memory in a real job: filled, trained on Zipf ids, killed, saved, loaded; figures as JSON lines.

    fleetrun --server_num 1 --worker_num 1 --durable DIR benchmarks/scripts/large_fleet.py --rows 10000000 \
        --memory 64M --out FILE

The job has two tables of the same kind: `large`, which may take --memory, and `plain`, which is all in memory. Steps of
the one and of the other take turns, with the same ids; only what Zipf draws is in `plain`, which makes it the faster.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import fleet

WIDTH, SLOTS, DENSE, BATCH = 8, 26, 13, 1000
FILL = 100_000
STEPS = 20  # of a turn


class CTR(nn.Module):
    """26 rows of 8 and 13 numbers, through three layers of 400; the rows of one table or of the other."""

    def __init__(self, memory: str) -> None:
        super().__init__()
        rule = fleet.rules.Adagrad(lr=0.05, eps=1e-6)
        self.large = fleet.nn.Embedding(WIDTH, table="large", rule=rule, memory=memory)
        self.plain = fleet.nn.Embedding(WIDTH, table="plain", rule=rule)
        sizes = [SLOTS * WIDTH + DENSE, 400, 400, 400]
        hidden = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(400, 2))

    def forward(self, ids: torch.Tensor, dense: torch.Tensor, table: str) -> torch.Tensor:
        rows = (self.large if table == "large" else self.plain)(ids)
        logits: torch.Tensor = self.layers(torch.cat([rows.flatten(1), dense], dim=1))
        return logits


class Zipf:
    """Ids of `num_rows`, the k-th most frequent drawn in proportion to k ** -exponent."""

    def __init__(self, num_rows: int, exponent: float, seed: int) -> None:
        self._random, self._rows, self._exponent = np.random.default_rng(seed), num_rows, exponent

    def batch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        u, e = self._random.random((BATCH, SLOTS)), 1.0 - self._exponent
        ranks = np.power(u * (float(self._rows + 1) ** e - 1.0) + 1.0, 1.0 / e).astype(np.int64) - 1
        dense = self._random.random((BATCH, DENSE), dtype=np.float32)
        label = self._random.integers(0, 2, BATCH)
        return torch.from_numpy(key_of(ranks)), torch.from_numpy(dense), torch.from_numpy(label)


def key_of(rows: Any) -> Any:
    """The key of a row number: distinct, and spread over the whole int64 range as hashed ids are."""
    return (rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.int64)


class Job:
    """The worker's side."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = fleet.distributed_model(CTR(args.memory))
        self.optimizer = fleet.distributed_optimizer(torch.optim.Adam(self.model.parameters(), lr=1e-4))
        fleet.init_worker()

    def tell(self, stage: str, **figures: Any) -> None:
        """Add a line to the file, and say it."""
        server = self.server()
        memory = {"rss_bytes": server.memory_info().rss, "cpu_s": sum(server.cpu_times()[:2])}
        line = json.dumps({"stage": stage, **figures, "server": {**memory, **self.stats()["tables"]["large"]}})
        with Path(self.args.out).open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)

    def stats(self) -> dict[str, Any]:
        (stats,) = fleet.server_stats()
        return stats

    def server(self) -> psutil.Process:
        launcher = psutil.Process().parent()
        assert launcher is not None
        (found,) = [one for one in launcher.children() if one.environ().get("TRAINING_ROLE") == "PSERVER"]
        return found

    def fill(self) -> None:
        """Push every key once."""
        begin, last, rows = time.monotonic(), time.monotonic(), self.args.rows
        for first in range(0, rows, FILL):
            ids = np.arange(first, min(rows, first + FILL))
            loss = 1e-3 * self.model.large(torch.from_numpy(key_of(ids))).sum()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if time.monotonic() > last + 30:
                fleet.flush()
                last = time.monotonic()
                self.tell("filling", rows=first + len(ids), wall_s=last - begin)
        fleet.flush()
        took_s = time.monotonic() - begin
        self.tell("fill", rows=rows, wall_s=took_s, rows_per_s=rows / took_s)

    def load(self, folder: str) -> None:
        """Begin with a checkpoint."""
        begin = time.monotonic()
        rows = fleet.load_model(folder)
        self.tell("load at the start", rows=rows, wall_s=time.monotonic() - begin)

    def warm(self) -> None:
        """Push the most frequent keys once more, as a job that has trained for a while has done many times."""
        begin = time.monotonic()
        for first in range(0, self.args.warm, FILL):
            ids = np.arange(first, min(self.args.warm, first + FILL))
            (0.0 * self.model.large(torch.from_numpy(key_of(ids))).sum()).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        fleet.flush()
        self.tell("warm", rows=self.args.warm, wall_s=time.monotonic() - begin)

    def step(self, batch: Any, table: str) -> None:
        ids, dense, label = batch
        F.cross_entropy(self.model(ids, dense, table), label).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def turn(self, batches: list[Any], table: str) -> float:
        """Samples per second of some steps, their ids asked for one step ahead."""
        begin = time.monotonic()
        embedding = self.model.large if table == "large" else self.model.plain
        for batch in fleet.prefetch(batches, embedding, keys=lambda batch: batch[0]):
            self.step(batch, table)
        fleet.flush()
        return len(batches) * BATCH / (time.monotonic() - begin)

    def train(self, exponent: float) -> None:
        """Turns of both tables; the first ones warm the memory and are told apart."""
        data = Zipf(self.args.rows, exponent, 1)
        rates: dict[str, list[float]] = {"large": [], "plain": []}
        for number in range(self.args.warmup + self.args.turns):
            batches = [data.batch() for _ in range(STEPS)]
            before = self.stats()["tables"]["large"]["disk"]
            for table, found in rates.items():
                found.append(self.turn(batches, table))
            after = self.stats()["tables"]["large"]["disk"]
            if number % 10 == 0:
                reads = (after["reads"] - before["reads"]) / STEPS
                print(
                    f"zipf {exponent} turn {number}: {rates['large'][-1]:.0f} of {rates['plain'][-1]:.0f} samples/s, "
                    f"{reads:.0f} reads a step",
                    flush=True,
                )
        medians = {table: float(np.median(found[self.args.warmup :])) for table, found in rates.items()}
        self.tell(
            "train",
            exponent=exponent,
            raw_samples_per_s=rates,
            warmup_turns=self.args.warmup,
            median_samples_per_s=medians,
            share_of_memory=medians["large"] / medians["plain"],
            reads_per_step=(after["reads"] - before["reads"]) / STEPS,
        )

    def kill(self) -> None:
        """Kill the server, and go on: the seconds until a step was answered by the next one."""
        ids = torch.from_numpy(key_of(np.arange(1000)))
        before, rows = self.model.large(ids).detach().clone(), self.stats()["tables"]["large"]["rows"]
        fleet.flush()
        begin = time.monotonic()
        os.kill(self.server().pid, signal.SIGKILL)
        same = torch.equal(self.model.large(ids).detach(), before)
        away_s = time.monotonic() - begin
        now = self.stats()["tables"]["large"]["rows"]
        self.tell("kill -9", away_s=away_s, rows_before=rows, rows_after=now, is_same=bool(same and rows == now))

    def save(self) -> None:
        """A checkpoint, and the same loaded."""
        folder = Path(self.args.checkpoint)
        ids = torch.from_numpy(key_of(np.arange(1000)))
        before, begin = self.model.large(ids).detach().clone(), time.monotonic()
        fleet.save_persistables(str(folder))
        saved_s = time.monotonic() - begin
        self.tell("save", wall_s=saved_s)
        data = Zipf(self.args.rows, 1.2, 2)
        self.turn([data.batch() for _ in range(5)], "large")
        begin = time.monotonic()
        fleet.load_model(str(folder))
        loaded_s = time.monotonic() - begin
        same = torch.equal(self.model.large(ids).detach(), before)
        self.tell("load", wall_s=loaded_s, is_same=bool(same))
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--memory", required=True)
    parser.add_argument("--exponent", type=float, action="append")
    parser.add_argument("--warmup", type=int, default=5, help="turns of 20 steps before those that count")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--checkpoint", help="a folder for the checkpoint")
    parser.add_argument("--loaded", help="a checkpoint to begin with, instead of filling the table")
    parser.add_argument("--warm", type=int, default=0, help="how many of the most frequent rows are pushed once more")
    parser.add_argument("--only-train", action="store_true", help="no kill and no checkpoint")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    job = Job(args)
    if args.loaded:
        job.load(args.loaded)
    else:
        job.fill()
    if args.warm:
        job.warm()
    for exponent in args.exponent or [1.05]:
        job.train(exponent)
    if not args.only_train:
        job.kill()
        job.save()
    fleet.stop_worker()


if __name__ == "__main__":
    main()
