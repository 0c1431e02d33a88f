"""What --data names: batches to train on, batches to evaluate on, and what is known of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import sessions
import torch
from columns import read_columns
from held import Held

import fleet
from fleet.data import Batch, Schema, Shard, criteo
from fleet.errors import UsageError
from fleet_tools.synthetic import Clicks

EVALUATED = 4096
"""Samples in a batch of evaluation, which needs less memory than training."""


@dataclass(frozen=True)
class Source:
    """This worker's batches, and what a model must know of them."""

    train: Shard
    valid: Shard
    """To evaluate on while training."""
    num_dense: int
    num_slots: int
    test: Shard | None = None
    """To measure the best model on, at the end; None: `valid` is all there is."""
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
    open_it, tasks = KINDS[kind]
    if task not in tasks:
        fits = " or ".join(f"{name}:..." for name, (_, tasks) in KINDS.items() if task in tasks)
        raise UsageError(f"--data {args.data} has nothing for --model {args.model}; give it {fits}")
    return open_it(where, args, task)


def _synthetic(where: str, args: argparse.Namespace, task: str) -> Source:
    """`synthetic:N` makes samples as they are needed; `synthetic:N:DIR` makes or finds files of them in DIR."""
    count, _, folder = where.partition(":")
    num, unseen = _sizes("synthetic", count)
    clicks = Clicks(num + unseen, args.seed)
    ceiling = clicks.ceiling(first=num) if fleet.is_first_worker() else None
    if not folder:
        train, valid = Made(clicks, 0, num), Made(clicks, num, num + unseen)
        return Source(
            train=fleet.data.shard(train, args.batch_size, collate=Held.collate),
            valid=fleet.data.shard(valid, EVALUATED, uneven="join", collate=Held.collate),
            num_dense=13,
            num_slots=26,
            ceiling=ceiling,
        )
    if fleet.is_first_worker():
        clicks.write(Path(folder) / "train", last=num)
        clicks.write(Path(folder) / "test", first=num, files=2)
    fleet.barrier_worker()
    return replace(_criteo(folder, args, task), ceiling=ceiling)


class Made:
    """Samples `first` to `last` of a generator, for fleet.data.shard: made when they are asked for."""

    def __init__(self, clicks: Clicks, first: int, last: int) -> None:
        self._clicks, self._first, self._last = clicks, first, last

    def __len__(self) -> int:
        return self._last - self._first

    def __getitem__(self, place: int) -> Batch:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: Sequence[int]) -> list[Batch]:
        first, last = self._first + places[0], self._first + places[-1] + 1
        if last - first == len(places):
            return [self._clicks[first:last]]
        # The end of an epoch, filled up with samples from its beginning.
        parts = [self._clicks[self._first + place : self._first + place + 1] for place in places]
        label, dense, ids = (torch.cat([part[column] for part in parts]) for column in range(3))  # type: ignore[misc]
        return [Batch(label, dense, ids, {}, None)]


def _criteo(where: str, args: argparse.Namespace, _task: str) -> Source:
    """Files of Criteo's columns: those whose names begin with train, valid and test; folders of them will do."""
    return _from_files("criteo", where, args, lambda folder: criteo_of(str(min(folder.glob("train*")))))


def _files(where: str, args: argparse.Namespace, _task: str) -> Source:
    """Files of any columns, which `columns.json` beside them explains."""
    return _from_files("files", where, args, read_columns)


def _from_files(kind: str, where: str, args: argparse.Namespace, schema_of: Callable[[Path], Schema]) -> Source:
    train, valid, test = (sorted(map(str, Path(where).glob(f"{part}*"))) for part in ("train", "valid", "test"))
    if not train or not (valid or test):
        missing = "train*" if not train else "test*"
        raise UsageError(f"--data {kind}:{where}: there is no {missing} there; name files or folders train* and test*")
    schema = schema_of(Path(where))
    unseen = [fleet.data.files(files, schema, EVALUATED) for files in (valid, test) if files]
    # All workers make the same number of steps: an epoch ends for all when the first has read its part, and what the
    # others have left is another part of the files in each epoch. To read samples twice would be worse than that.
    return Source(
        train=fleet.data.files(train, schema, args.batch_size, shuffle=True, seed=args.seed, uneven="drop"),
        valid=unseen[0],
        test=unseen[1] if len(unseen) > 1 else None,
        num_dense=len(schema.numbers),
        num_slots=len(schema.single),
        bags=tuple(one.name for one in schema.several),
    )


def criteo_of(path: str) -> Schema:
    """Criteo's columns as the files of a set have them: with tabs, or with commas and names in the first line."""
    found = criteo()
    if ".csv" not in Path(path).name:
        return found
    return Schema(found.label, found.numbers, found.categories, delimiter=",", header=True)


def _sessions(where: str, args: argparse.Namespace, task: str) -> Source:
    num, unseen = _sizes("sessions", where)
    made = sessions.Sessions.make(num + unseen, args.seed, first_unseen=num)
    batch = made.batch
    if task in ("click", "history"):
        batch = batch._replace(label=batch.label[:, 0].contiguous())
    if task == "next":
        batch = batch._replace(ids=torch.stack([batch.ids[:, 0], made.following], dim=1))
    examples = Held(batch)
    return Source(
        train=fleet.data.shard(examples[:num], args.batch_size, shuffle=True, seed=args.seed, collate=Held.collate),
        valid=fleet.data.shard(examples[num:], EVALUATED, uneven="join", collate=Held.collate),
        num_dense=0,
        num_slots=2,
        ceiling=made.ceiling if task != "next" else None,
        item=1,
        items=torch.arange(1, sessions.ITEMS + 1),
        length=sessions.LENGTH,
        bags=("history",),
    )


def _movielens(where: str, args: argparse.Namespace, task: str) -> Source:
    """MovieLens, with ratings of 4 and 5 as clicks; or with the last item of each user to be found."""
    movielens: Any = import_module("movielens")  # beside this file; mypy knows another one of that name
    data = movielens.read(Path(where))
    if task == "next":  # two towers learn one item of a sample; the others one at each place of its history
        split = movielens.leave_one_out(data, windows=args.model != "two_tower")
    else:
        split = movielens.clicks(data, args.seed)
    valid, test = (
        fleet.data.shard(Held(one), EVALUATED, uneven="join", collate=Held.collate) for one in (split.valid, split.test)
    )
    return Source(
        train=fleet.data.shard(Held(split.train), args.batch_size, shuffle=True, seed=args.seed, collate=Held.collate),
        valid=valid,
        test=test,
        num_dense=split.train.dense.shape[1],
        num_slots=split.train.ids.shape[1],
        item=movielens.ITEM,
        items=torch.from_numpy(data.item_ids).sort().values,
        length=movielens.LENGTH,
        bags=("genres",),
    )


def _sizes(kind: str, where: str) -> tuple[int, int]:
    """How many samples to train on, and how many to keep for evaluation."""
    if not where.isdigit() or int(where) < 1:
        raise UsageError(f"--data {kind}:{where}: give the number of samples, as in {kind}:200000")
    return int(where), max(1000, min(int(where) // 10, 200_000))


KINDS: dict[str, tuple[Callable[[str, argparse.Namespace, str], Source], tuple[str, ...]]] = {
    "synthetic": (_synthetic, ("click",)),
    "criteo": (_criteo, ("click",)),
    "files": (_files, ("click",)),
    "sessions": (_sessions, ("click", "history", "several", "next")),
    "movielens": (_movielens, ("click", "history", "next")),
}
"""How each is opened, and the tasks that it has something for."""
