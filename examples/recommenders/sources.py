"""What --data names: batches to train on, batches to evaluate on, and what is known of them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from held import Held
from sessions import Sessions

import fleet
from fleet.data import Shard
from fleet.errors import UsageError

EVALUATED = 4096
"""Samples in a batch of evaluation, which needs less memory than training."""


@dataclass(frozen=True)
class Source:
    """This worker's batches; `ceiling` is the AUC of the model that made the labels, where that is known."""

    train: Shard
    test: Shard
    num_dense: int
    num_slots: int
    ceiling: float | None = None
    item: int = 0
    """The column of ids that histories are of."""


def open_data(args: argparse.Namespace, task: str) -> Source:
    """Open what `--data KIND:WHERE` names, for a task of tasks.py."""
    kind, _, where = args.data.partition(":")
    if kind not in KINDS:
        raise UsageError(f"--data {args.data}: {kind!r} is none of {', '.join(KINDS)}")
    return KINDS[kind](where, args, task)


def _sessions(where: str, args: argparse.Namespace, task: str) -> Source:
    num, held_out = _sizes("sessions", where)
    made = Sessions.make(num + held_out, args.seed, first_unseen=num)
    batch = made.batch
    if task == "click":
        batch = batch._replace(label=batch.label[:, 0].contiguous())
    examples = Held(batch)
    return Source(
        train=fleet.data.shard(examples[:num], args.batch_size, shuffle=True, seed=args.seed, collate=Held.collate),
        test=fleet.data.shard(examples[num:], EVALUATED, uneven="join", collate=Held.collate),
        num_dense=0,
        num_slots=2,
        ceiling=made.ceiling,
        item=1,
    )


def _sizes(kind: str, where: str) -> tuple[int, int]:
    """How many samples to train on, and how many to keep for evaluation."""
    if not where.isdigit() or int(where) < 1:
        raise UsageError(f"--data {kind}:{where}: give the number of samples, as in {kind}:200000")
    return int(where), max(1000, min(int(where) // 10, 200_000))


KINDS = {"sessions": _sessions}
