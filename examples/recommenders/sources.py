"""What --data names: batches to train on, batches to evaluate on, and what is known of them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch

import fleet
from fleet.data import Batch, Shard
from fleet.errors import UsageError


@dataclass(frozen=True)
class Source:
    """This worker's batches; `ceiling` is the AUC of the model that made the labels, where that is known."""

    train: Shard
    test: Shard
    num_dense: int
    num_slots: int
    ceiling: float | None = None


def open_data(args: argparse.Namespace) -> Source:
    """Open what `--data KIND:WHERE` names."""
    kind, _, where = args.data.partition(":")
    if kind not in KINDS:
        raise UsageError(f"--data {args.data}: {kind!r} is none of {', '.join(KINDS)}")
    return KINDS[kind](where, args)


def _synthetic(where: str, args: argparse.Namespace) -> Source:
    if not where.isdigit() or int(where) < 1:
        raise UsageError(f"--data synthetic:{where}: give the number of samples, as in synthetic:200000")
    num = int(where)
    held_out = max(1000, min(num // 10, 200_000))
    made = _Made(num + held_out, args.seed)
    return Source(
        train=fleet.data.shard(made.part(0, num), args.batch_size, shuffle=True, seed=args.seed, collate=_whole),
        test=fleet.data.shard(made.part(num, num + held_out), 4096, uneven="join", collate=_whole),
        num_dense=13,
        num_slots=26,
        ceiling=None,
    )


def _whole(batch: list[Batch]) -> Batch:
    return batch[0]


class _Made:
    """Stands in until there is a generator."""

    def __init__(self, num: int, seed: int) -> None:
        rng = torch.Generator().manual_seed(seed)
        self.ids = (torch.rand(num, 26, generator=rng) ** 4 * 10_000).long() + torch.arange(26) * 10_000
        self.dense = torch.rand(num, 13, generator=rng)
        weights = torch.randn(260_000, generator=rng) * 0.5
        logit = weights[self.ids].sum(1) + self.dense[:, 0] - 1
        self.label = (torch.rand(num, generator=rng) < torch.sigmoid(logit)).float()

    def part(self, first: int, last: int) -> _Made:
        made = object.__new__(_Made)
        made.ids, made.dense, made.label = self.ids[first:last], self.dense[first:last], self.label[first:last]
        return made

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, index: int) -> Batch:
        return self.__getitems__([index])[0]

    def __getitems__(self, places: list[int]) -> list[Batch]:
        return [Batch(self.label[places], self.dense[places], self.ids[places], {}, None)]


KINDS = {"synthetic": _synthetic}
