"""Which samples make a batch: orders of places in a dataset, and lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Any

from torch.utils import data

from fleet.errors import UsageError
from fleet_paddle.imperative import get_rank, get_world_size
from fleet_paddle.taking import Taking

RandomSampler = data.RandomSampler
SequenceSampler = data.SequentialSampler
WeightedRandomSampler = data.WeightedRandomSampler


class Sampler(data.Sampler[Any]):
    """An order of places in a dataset, `data_source`; a class of the user's says which in `__iter__`."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)


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


class DistributedBatchSampler(Taking):
    """Lists of places of this worker's part: as many on every worker, the first ones again where they do not divide.

    With `shuffle` every pass has another order, the same on all workers; `set_epoch` says which is next.
    """

    takes = "dataset, batch_size, num_replicas=None, rank=None, shuffle=False, drop_last=False"
    batch_size: int
    drop_last: bool

    def take(self, given: dict[str, Any]) -> None:
        self.batch_size, self.drop_last = given["batch_size"], given["drop_last"]
        if self.batch_size < 1:
            raise UsageError(f"DistributedBatchSampler: batch_size must be >= 1, got {self.batch_size}")
        count, index = given["num_replicas"], given["rank"]
        count, index = get_world_size() if count is None else count, get_rank() if index is None else index
        self.sampler: Any = data.distributed.DistributedSampler(
            given["dataset"], count, index, shuffle=given["shuffle"]
        )

    def __iter__(self) -> Iterator[list[int]]:
        places = list(self.sampler)
        self.set_epoch(self.sampler.epoch + 1)
        return (places[start : start + self.batch_size] for start in self._starts())

    def _starts(self) -> range:
        return range(0, len(self) * self.batch_size, self.batch_size)

    def __len__(self) -> int:
        whole = len(self.sampler) / self.batch_size
        return int(whole) if self.drop_last else ceil(whole)

    def set_epoch(self, epoch: int) -> None:
        """The number of the next pass, which decides its order."""
        self.sampler.set_epoch(epoch)
