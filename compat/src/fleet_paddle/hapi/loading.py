"""Batches for `fit`, `evaluate` and `predict`: a dataset is divided among the workers, a loader is taken as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import data

from fleet_paddle.batches.io import DataLoader
from fleet_paddle.batches.sampling import DistributedBatchSampler


def loader_of(given: Any, batch_size: int, shuffle: bool, drop_last: bool, num_workers: int) -> Any:
    """What gives the batches: made of a dataset, or what was given, if it gives batches itself."""
    if isinstance(given, data.IterableDataset):
        return DataLoader(given, batch_size=batch_size, drop_last=drop_last, num_workers=num_workers)
    if not isinstance(given, data.Dataset):
        return given
    batches = DistributedBatchSampler(given, batch_size, shuffle=shuffle, drop_last=drop_last)
    return DataLoader(given, batch_sampler=batches, num_workers=num_workers)


def steps_of(loader: Any) -> int | None:
    """How many batches there are; None where nobody knows."""
    try:
        return len(loader)
    except TypeError:
        return None


def samples_of(loader: Any) -> int | None:
    """How many samples all workers have together; None where nobody knows."""
    try:
        return len(loader.dataset)
    except (AttributeError, TypeError):
        return None


def flat(batch: Any) -> list[Any]:
    """The fields of a batch in one list, whatever lists and dicts they came in."""
    if isinstance(batch, dict):
        return [field for one in batch.values() for field in flat(one)]
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        return [field for one in batch for field in flat(one)]
    return [batch]


def size_of(fields: Sequence[Any]) -> int:
    """How many samples a batch has."""
    first = fields[0]
    return len(first) if isinstance(first, torch.Tensor) and first.dim() else 1
