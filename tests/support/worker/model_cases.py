"""The models of `fleet.models`, small, with data: a row here is all that a new model needs to be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fleet import models
from fleet.data.columns.records import Batch, SlotValues
from fleet.models import Recommender

NUM_IDS, BATCH, STEPS = 40, 12, 5
"""Ids lie below NUM_IDS: the truth has a plain matrix for each table."""


@dataclass(frozen=True)
class Case:
    """A model that is trained by two workers and by plain torch."""

    name: str
    make: Callable[[], Recommender]
    batches: Callable[[], list[Batch]]
    by_parts: bool = False
    """Whether the loss compares samples of a batch with each other: then the truth is the mean over workers' parts."""


def clicks(num_tasks: int = 1, *, has_bags: bool = False, has_weight: bool = False) -> list[Batch]:
    """STEPS batches that all workers see together: 3 numbers, 4 categories, labels that depend on a pair of ids."""
    generator = torch.Generator().manual_seed(7)
    batches = []
    for _ in range(STEPS):
        ids = torch.randint(NUM_IDS, (BATCH, 4), generator=generator)
        dense = torch.rand(BATCH, 3, generator=generator)
        labels = ((ids[:, :1] * ids[:, 1:2] + torch.arange(num_tasks)) % 3 == 0).float()
        if num_tasks == 2:
            labels[:, 1] *= labels[:, 0]  # no conversion without a click
        weight = torch.rand(BATCH, generator=generator) + 0.5 if has_weight else None
        slots = some_bags(generator) if has_bags else {}
        batches.append(Batch(labels.squeeze(1) if num_tasks == 1 else labels, dense, ids, slots, weight))
    return batches


def some_bags(generator: torch.Generator) -> dict[str, SlotValues]:
    """A bag of any length, some empty, and one of a fixed length, filled up with 0."""
    lengths = torch.randint(4, (BATCH,), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    fixed = torch.randint(NUM_IDS, (BATCH, 3), generator=generator) * (torch.arange(3) < lengths.unsqueeze(1))
    return {"any": (torch.randint(1, NUM_IDS, (int(offsets[-1]),), generator=generator), offsets), "fixed": fixed}


def share(batch: Batch, worker: int, num_workers: int) -> Batch:
    """The samples of one worker."""

    def values(given: SlotValues) -> SlotValues:
        if isinstance(given, torch.Tensor):
            return given[worker::num_workers].contiguous()
        bags = list(given[0].split(given[1].diff().tolist()))[worker::num_workers]
        ends = torch.tensor([0, *(len(bag) for bag in bags)]).cumsum(0)
        return torch.cat(bags), ends

    label, dense, ids = (one[worker::num_workers].contiguous() for one in batch[:3])
    weight = None if batch.weight is None else batch.weight[worker::num_workers].contiguous()
    return Batch(label, dense, ids, {name: values(given) for name, given in batch.slots.items()}, weight)


def tabular(name: str, label: str | None = None, num_tasks: int = 1, has_weight: bool = False, **settings: Any) -> Case:
    """A model of `models.build` over numbers, categories and bags."""
    make = partial(
        models.build, name, num_dense=3, num_slots=4, dim=4, hidden=(8, 4), bags=("any", "fixed"), **settings
    )
    return Case(label or name, make, partial(clicks, num_tasks, has_bags=True, has_weight=has_weight))


def sequences() -> list[Batch]:
    """STEPS batches with histories (short ones, empty ones, padding in front or behind), bags and pairs."""
    generator = torch.Generator().manual_seed(8)

    def ids(*shape: int) -> torch.Tensor:
        return torch.randint(1, NUM_IDS, shape, generator=generator)

    batches = []
    for number, plain in enumerate(clicks(has_bags=True)):
        history = ids(BATCH, LENGTH)
        history[number % BATCH] = 0
        history[1:4, :2] = 0
        history[4:7, 3:] = 0
        slots = {
            "history": history,
            "times": ids(BATCH, LENGTH).cumsum(1) * 50,
            "others": ids(BATCH, LENGTH),
            "negatives": ids(BATCH, 3),
            "around": ids(BATCH, 4),
            **{name: ids(BATCH, 3) for name in ("query", "title", "other")},
            **plain.slots,
        }
        batches.append(plain._replace(ids=ids(BATCH, 4), slots=slots))
    return batches


def words() -> list[Batch]:
    """The same with one id a sample."""
    return [batch._replace(ids=batch.ids[:, :1].contiguous()) for batch in sequences()]


def sequential(name: str, label: str | None = None, by_parts: bool = False, **settings: Any) -> Case:
    """A model of `models.build` over histories."""
    made = words if name == "word2vec" else sequences
    return Case(label or name, partial(models.build, name, **settings), made, by_parts)


LENGTH = 5
CLICKS: dict[str, Any] = {"num_dense": 3, "num_slots": 4, "item": 1, "dim": 4, "hidden": (8, 4), "attention": (5,)}
NEXT: dict[str, Any] = {"item": 1, "length": LENGTH, "dim": 4, "dropout": 0.0}
ITEMS = torch.arange(1, NUM_IDS)

CASES = [
    tabular("dnn"),
    tabular("wide_deep", has_weight=True),
    tabular("deepfm"),
    tabular("xdeepfm", maps=(3, 2)),
    tabular("dcn", cross_layers=2),
    tabular("dcn", "dcn_mix", cross_layers=2, rank=2, num_experts=3, stacked=True),
    tabular("dlrm", bottom=(5,)),
    tabular("finalnet", has_weight=True),
    tabular("mmoe", num_tasks=2, num_experts=3, experts=(6,)),
    tabular("ple", num_tasks=2, experts=(6,)),
    tabular("esmm", num_tasks=2, has_weight=True),
    sequential("din", **CLICKS, bags=("any", "fixed")),
    sequential("din", "din_prelu", **CLICKS, activation="prelu"),
    sequential("dien", **CLICKS, negatives="others", activation="prelu", bags=("fixed",)),
    sequential("two_tower", by_parts=True, user=(0, 2), item=(1, 3), history="history", log_q=0, dim=4, hidden=(6,)),
    sequential("sasrec", **NEXT, items=ITEMS),
    sequential("sasrec", "sasrec_bce", **NEXT, objective="bce"),
    sequential("sasrec", "sasrec_last", **NEXT, every_place=False),
    sequential("hstu", **NEXT, times="times", items=ITEMS),
    sequential("hstu", "hstu_sampled", **NEXT),
    sequential("simnet_bow", dim=4, out=4),
    sequential("word2vec", dim=4),
]
