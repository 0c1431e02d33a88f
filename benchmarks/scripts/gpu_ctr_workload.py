"""What the contestants of benchmarks/gpu_ctr.py share: the model behind the rows, the data, and how a step is timed."""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from fleet.metrics import AUC

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples.ctr.data import DENSE, SLOTS, VOCAB, Batch, batches

__all__ = ["SLOTS", "VOCAB", "Batch"]  # no contestant can import them before this file has said from where

WIDTH = 10
ROW_LR, ROW_EPS, DENSE_LR = 0.05, 1e-6, 1e-4
HELD_OUT, UNSEEN = 4, 1_000_000
SETTLE = 3
"""Batches before those that are timed: the device may have been idle, or somebody else's."""

Batches = Sequence[Batch]
Train = Callable[[Batches], tuple[list[torch.Tensor], dict[str, float]]]
"""One pass over batches: the loss of each, on the device, and milliseconds by part of all steps."""
Predict = Callable[[Batch], torch.Tensor]


def layers() -> nn.Sequential:
    """Three layers of 400 over 26 rows of 10 and 13 numbers, and two classes."""
    sizes = [SLOTS * WIDTH + DENSE, 400, 400, 400]
    hidden = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(400, 2))


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1_000, 16_384])
    parser.add_argument("--steps", type=int, default=40, help="Batches that are timed, in each round.")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds that have batches of their own.")
    parser.add_argument("--warm-up", type=int, default=100, help="Batches of each size before; a cache fills.")
    parser.add_argument("--zipf", type=float, default=1.1)
    parser.add_argument("--rows", type=int, default=SLOTS * VOCAB, help="How many the table has before training.")
    return parser


def device_of() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def pinned(data: Iterable[Batch]) -> list[Batch]:
    """Where copies to a GPU begin quickest."""
    return [Batch(*(tensor.pin_memory() for tensor in one)) if torch.cuda.is_available() else one for one in data]


def auc_of(predict: Predict, data: Batches) -> float:
    metric = AUC()
    for batch in data:
        metric.update(predict(batch).cpu(), batch.label)
    return float(metric.compute())


def serve(options: argparse.Namespace, train: Train, predict: Predict, begun: float, **more: object) -> None:
    """Train a little, say so, then answer every line on stdin with samples per second and the parts of a step.

    No batch is trained on twice. The losses of the first are given as a checksum: equal ones are the same bits.
    """
    each = SETTLE + options.steps
    count = options.warm_up + options.rounds * each
    data = {size: pinned(batches(count, size, zipf=options.zipf)) for size in options.batch_sizes}
    unseen = pinned(batches(HELD_OUT, 4096, worker=UNSEEN, zipf=options.zipf))
    first: list[torch.Tensor] = []
    for size in options.batch_sizes:
        first += train(data[size][: options.warm_up])[0]
    crc = zlib.crc32(torch.stack(first).detach().cpu().numpy().tobytes())
    answer(warm_up_s=time.perf_counter() - begun, losses_crc=crc, **more)
    for number, _ in zip(range(options.rounds), sys.stdin, strict=False):
        found = {}
        for size in options.batch_sizes:
            begin = options.warm_up + number * each
            train(data[size][begin : begin + SETTLE])
            synchronize()
            start = time.perf_counter()
            _, parts = train(data[size][begin + SETTLE : begin + each])
            synchronize()
            seconds = time.perf_counter() - start
            per_step = {name: round(total / options.steps, 3) for name, total in parts.items()}
            found[str(size)] = {"samples_per_s": size * options.steps / seconds, "parts_ms": per_step}
        largest = found[str(max(options.batch_sizes))]["samples_per_s"]
        memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        answer(items_per_s=largest, by_batch=found, auc=auc_of(predict, unseen), memory_bytes=memory, losses_crc=crc)


def answer(**figures: object) -> None:
    print("ANSWER", json.dumps(figures), flush=True)
