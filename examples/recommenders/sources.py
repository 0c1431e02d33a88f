"""What --data names: batches to train on, batches to evaluate on, and what is known of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from held import Held
from sessions import ITEMS, LENGTH, Sessions

import fleet
from fleet.data import Batch, Schema, Shard, criteo
from fleet.data.synthetic import Clicks
from fleet.errors import UsageError

EVALUATED = 4096
"""Samples in a batch of evaluation, which needs less memory than training."""


@dataclass(frozen=True)
class Source:
    """This worker's batches, and what a model must know of them."""

    train: Shard
    test: Shard
    num_dense: int
    num_slots: int
    ceiling: float | None = None
    """The AUC of the probabilities that the labels were drawn with, where they are known."""
    item: int = 0
    """The column of ids that histories are of."""
    items: torch.Tensor | None = None
    """Every item there is."""
    length: int = 0
    """Of the longest history."""
    bags: tuple[str, ...] = ()
    """Slots of which a model that knows no history takes the mean."""


def open_data(args: argparse.Namespace, task: str) -> Source:
    """Open what `--data KIND:WHERE` names, for a task of tasks.py."""
    kind, _, where = args.data.partition(":")
    if kind not in KINDS:
        raise UsageError(f"--data {args.data}: {kind!r} is none of {', '.join(KINDS)}")
    if task not in TASKS_OF[kind]:
        fits = " or ".join(f"{name}:..." for name, tasks in TASKS_OF.items() if task in tasks)
        raise UsageError(f"--data {args.data} has nothing for --model {args.model}; give it {fits}")
    return KINDS[kind](where, args, task)


def _synthetic(where: str, args: argparse.Namespace, _task: str) -> Source:
    """`synthetic:N` makes samples as they are needed; `synthetic:N:DIR` makes or finds files of them in DIR."""
    count, _, folder = where.partition(":")
    num, unseen = _sizes("synthetic", count)
    clicks = Clicks(num + unseen, args.seed)
    ceiling = clicks.ceiling(first=num) if fleet.is_first_worker() else None
    if not folder:
        train, test = Made(clicks, 0, num), Made(clicks, num, num + unseen)
        return Source(
            train=fleet.data.shard(train, args.batch_size, collate=Held.collate),
            test=fleet.data.shard(test, EVALUATED, uneven="join", collate=Held.collate),
            num_dense=13,
            num_slots=26,
            ceiling=ceiling,
        )
    if fleet.is_first_worker():
        clicks.write(Path(folder) / "train", last=num)
        clicks.write(Path(folder) / "test", first=num, files=2)
    fleet.barrier_worker()
    return replace(_criteo(folder, args, _task), ceiling=ceiling)


class Made:
    """Samples `first` to `last` of a generator, for fleet.data.shard: made when they are asked for."""

    def __init__(self, clicks: Clicks, first: int, last: int) -> None:
        self._clicks, self._first, self._last = clicks, first, last

    def __len__(self) -> int:
        return self._last - self._first

    def __getitem__(self, place: int) -> Batch:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: Sequence[int]) -> list[Batch]:
        first, last = places[0], places[-1] + 1
        if last - first == len(places):
            return [self._clicks[self._first + first : self._first + last]]
        # The end of an epoch, filled up with samples from its beginning.
        parts = [self._clicks[self._first + place : self._first + place + 1] for place in places]
        return [Batch(*(torch.cat(columns) for columns in zip(*(part[:3] for part in parts), strict=True)), {}, None)]


def _criteo(where: str, args: argparse.Namespace, _task: str) -> Source:
    """Files of Criteo's columns: those whose names begin with train, and those that begin with test."""
    train, test = (sorted(map(str, Path(where).glob(f"{part}*"))) for part in ("train", "test"))
    if not train or not test:
        missing = "train*" if not train else "test*"
        raise UsageError(f"--data criteo:{where}: there is no {missing} there; name files or folders train* and test*")
    schema = criteo_of(train[0])
    return Source(
        train=fleet.data.files(train, schema, args.batch_size, shuffle=True, seed=args.seed, uneven="pad"),
        test=fleet.data.files(test, schema, EVALUATED),
        num_dense=len(schema.numbers),
        num_slots=len(schema.categories),
    )


def criteo_of(path: str) -> Schema:
    """Criteo's columns as the files of a set have them: with tabs, or with commas and names in the first line."""
    found = criteo()
    if ".csv" not in Path(path).name:
        return found
    return Schema(found.label, found.numbers, found.categories, delimiter=",", header=True)


def _sessions(where: str, args: argparse.Namespace, task: str) -> Source:
    num, unseen = _sizes("sessions", where)
    made = Sessions.make(num + unseen, args.seed, first_unseen=num)
    batch = made.batch
    if task in ("click", "history"):
        batch = batch._replace(label=batch.label[:, 0].contiguous())
    if task == "next":
        batch = batch._replace(ids=torch.stack([batch.ids[:, 0], made.following], dim=1))
    examples = Held(batch)
    return Source(
        train=fleet.data.shard(examples[:num], args.batch_size, shuffle=True, seed=args.seed, collate=Held.collate),
        test=fleet.data.shard(examples[num:], EVALUATED, uneven="join", collate=Held.collate),
        num_dense=0,
        num_slots=2,
        ceiling=made.ceiling if task != "next" else None,
        item=1,
        items=torch.arange(1, ITEMS + 1),
        length=LENGTH,
        bags=("history",),
    )


def _sizes(kind: str, where: str) -> tuple[int, int]:
    """How many samples to train on, and how many to keep for evaluation."""
    if not where.isdigit() or int(where) < 1:
        raise UsageError(f"--data {kind}:{where}: give the number of samples, as in {kind}:200000")
    return int(where), max(1000, min(int(where) // 10, 200_000))


KINDS: dict[str, Callable[[str, argparse.Namespace, str], Source]] = {
    "synthetic": _synthetic,
    "criteo": _criteo,
    "sessions": _sessions,
}
TASKS_OF = {"synthetic": ("click",), "criteo": ("click",), "sessions": ("history", "several", "next", "click")}
