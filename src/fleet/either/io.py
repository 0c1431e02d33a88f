"""Data for loops over tensors: torch's loader with the arguments of version 2.0; generators for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import Any

import torch
from torch.utils import data

from fleet.errors import NotSupportedError, UsageError
from fleet.imperative import get_rank, get_world_size
from fleet.imperative.tensor import own
from fleet.static.reader import DataLoader as _OfGenerators

Dataset = data.Dataset
IterableDataset = data.IterableDataset
RandomSampler = data.RandomSampler
SequenceSampler = data.SequentialSampler
Sampler = data.Sampler

__all__ = [
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "DistributedBatchSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequenceSampler",
    "TensorDataset",
]


class BatchSampler(data.BatchSampler):
    """Lists of places: in the order of the dataset, shuffled, or as a sampler has them."""

    def __init__(
        self,
        dataset: Any = None,
        sampler: Iterable[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        if (dataset is None) == (sampler is None):
            raise UsageError("BatchSampler: give a dataset or a sampler, one of them")
        if sampler is None:
            assert dataset is not None
            sampler = data.RandomSampler(dataset) if shuffle else data.SequentialSampler(dataset)
        super().__init__(sampler, batch_size, drop_last)


class DistributedBatchSampler:
    """Lists of places of this worker's part: as many on every worker, the first ones again where they do not divide.

    `set_epoch` chooses another order when `shuffle` is on; it must be the same on all workers.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        if batch_size < 1:
            raise UsageError(f"DistributedBatchSampler: batch_size must be >= 1, got {batch_size}")
        count = get_world_size() if num_replicas is None else num_replicas
        index = get_rank() if rank is None else rank
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler: Any = data.distributed.DistributedSampler(dataset, count, index, shuffle=shuffle)

    def __iter__(self) -> Iterator[list[int]]:
        places = list(self.sampler)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield places[start : start + self.batch_size]

    def __len__(self) -> int:
        whole = len(self.sampler) / self.batch_size
        return int(whole) if self.drop_last else ceil(whole)

    def set_epoch(self, epoch: int) -> None:
        """Another order."""
        self.sampler.set_epoch(epoch)


class TensorDataset(data.TensorDataset):
    """Samples of tensors that are as long as each other, given one by one or in one list."""

    def __init__(self, *tensors: Any) -> None:
        several = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
        super().__init__(*several)


class DataLoader(data.DataLoader[Any]):
    """Batches of a dataset as tensors, in lists; `from_generator` makes the loaders of programs.

    `use_buffer_reader`, `use_shared_memory` and `places` say how they travel, and torch does it its own way.
    """

    from_generator = staticmethod(_OfGenerators.from_generator)

    def __init__(
        self,
        dataset: Any,
        feed_list: Any = None,
        places: Any = None,  # noqa: ARG002
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,  # noqa: ARG002
        use_shared_memory: bool = True,  # noqa: ARG002
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
    ) -> None:
        if feed_list is not None or not return_list:
            raise NotSupportedError(
                "DataLoader: feed_list and return_list=False are for programs; use DataLoader.from_generator(feed_list)"
            )
        common: dict[str, Any] = {
            "collate_fn": collate_fn,
            "num_workers": num_workers,
            "timeout": timeout,
            "worker_init_fn": worker_init_fn,
        }
        if batch_sampler is not None:
            super().__init__(dataset, batch_sampler=batch_sampler, **common)
        else:
            super().__init__(dataset, batch_size=batch_size, shuffle=shuffle or None, drop_last=drop_last, **common)

    def __call__(self) -> Iterator[Any]:
        """`for batch in loader():` means the same as `for batch in loader:`."""
        return iter(self)

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield own(list(batch) if isinstance(batch, tuple) else batch if not _is_tensor(batch) else [batch])


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)
