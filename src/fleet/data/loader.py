"""A DataLoader over samples by position: made anew with a sampler that gives it this worker's part."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler, SequentialSampler

from fleet.data.shards.base import Uneven
from fleet.data.shards.stream import set_epoch
from fleet.data.shards.workers import Workers
from fleet.data.source import Items, SampleShard
from fleet.errors import UsageError

_REPLACED = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last")
"""What a sampler of batches stands for; everything else a loader was made with is kept."""


def can_be_divided(loader: DataLoader[Any]) -> bool:
    """Whether all that decides a loader's batches is torch's own, so that another sampler can do it in parts."""
    sampler, batches = loader.sampler, loader.batch_sampler
    if isinstance(loader.dataset, IterableDataset) or type(loader).__iter__ is not DataLoader.__iter__:
        return False
    if type(batches) is not BatchSampler or batches.sampler is not sampler or not hasattr(loader.dataset, "__len__"):
        return False
    if type(sampler) is RandomSampler:
        is_whole = not sampler.replacement and sampler.num_samples == len(loader.dataset)
        return is_whole and sampler.data_source is loader.dataset
    return type(sampler) is SequentialSampler and sampler.data_source is loader.dataset


class LoaderShard(SampleShard):
    """The batches of `loader`, each of its `batch_size` samples for each worker, by its own processes and collate_fn.

    What is divided, and what a position is, is that of samples. A shuffled order is made of `seed` and the epoch. With
    `drop_last` what does not fill a step is left out, whatever `uneven` says; a single worker takes a last batch that
    is short as it is.
    """

    def __init__(self, loader: DataLoader[Any], workers: Workers, *, uneven: Uneven, seed: int) -> None:
        assert loader.batch_size is not None  # it has a BatchSampler
        if loader.drop_last and len(loader.dataset) < loader.batch_size * workers.num:  # type: ignore[arg-type]
            raise UsageError(
                f"drop_last would drop all {len(loader.dataset)} samples of this DataLoader, a step "  # type: ignore[arg-type]
                f"takes {loader.batch_size} on each of {workers.num} workers; make batch_size smaller, or leave it out"
            )
        if loader.drop_last:
            uneven = "drop"
        elif workers.num == 1:
            uneven = "join"
        super().__init__(
            Items(loader.dataset, None),
            workers,
            batch_size=loader.batch_size,
            uneven=uneven,
            shuffle=isinstance(loader.sampler, RandomSampler),
            seed=seed,
        )
        self._loader = _made_anew(loader, _OwnBatches(self))
        self._own_generator = None if loader.generator is not None else torch.Generator()
        if self._own_generator is not None:
            self._loader.generator = self._own_generator

    def _batches(self) -> Iterator[Any]:
        set_epoch(self._loader, self._epoch)
        if self._own_generator is not None:
            # The seed of its processes. Drawn from torch's own numbers, a loop that was resumed would take one more.
            self._own_generator.manual_seed(_mixed(torch.initial_seed(), self._epoch, self._count))
        for batch in self._loader:  # it may read ahead: a batch counts when it is handed out
            self._count = self._after(self._count)
            yield batch

    def own_places(self) -> Iterator[list[int]]:
        """The places of this worker's batches in the data, from the position to the end of the epoch."""
        count = self._count
        while (places := self._places(count)) is not None:
            if len(places):
                yield self._in_order(places).tolist()
            count = self._after(count)


class _OwnBatches(Sampler[list[int]]):
    """What the loader asks for the batches of a shard."""

    def __init__(self, shard: LoaderShard) -> None:
        self._shard = shard

    def __iter__(self) -> Iterator[list[int]]:
        return self._shard.own_places()

    def __len__(self) -> int:
        return len(self._shard)


def _mixed(*numbers: int) -> int:
    """A seed that differs wherever one of these does."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big")


def _made_anew(loader: DataLoader[Any], batches: _OwnBatches) -> DataLoader[Any]:
    """The same loader with other batches; they come in order, or a position would not say which were taken."""
    names = inspect.signature(DataLoader).parameters.keys() - set(_REPLACED)
    kept = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    if "in_order" in kept:
        kept["in_order"] = True
    return DataLoader(batch_sampler=batches, **kept)
