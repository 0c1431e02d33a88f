"""Samples by position: batches of them, one worker's part of each step, and a DataLoader that is given that part."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from fleet.data.reading.from_files import Examples
from fleet.data.shards.base import Shard, Uneven
from fleet.data.shards.order import block, permutation
from fleet.data.shards.stream import set_epoch
from fleet.data.shards.workers import Workers
from fleet.errors import UsageError, UsageTypeError

Collate = Callable[[list[Any]], Any]


class Source(Protocol):
    """Samples by position."""

    def __len__(self) -> int: ...
    def batch(self, indices: torch.Tensor) -> Any:
        """The samples at `indices` (int64, on the CPU) as one batch, which shares no memory with the data."""


class Columns(Source):
    """Tensors and arrays with a sample in each row. Rows are picked at once; numbers of numpy become tensors."""

    def __init__(self, columns: Sequence[Any], wrap: Callable[[list[Any]], Any]) -> None:
        for column in columns:
            if not isinstance(column, torch.Tensor | np.ndarray) or column.ndim == 0:
                raise UsageTypeError(
                    f"a tuple of data must hold tensors or arrays with a row for each sample, got {_kind_of(column)}; "
                    "give samples of other kinds as a list"
                )
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise UsageError(f"the tensors of a tuple must have a row for each sample, got {lengths} rows")
        self._columns = columns
        self._wrap = wrap

    def __len__(self) -> int:
        return len(self._columns[0])

    def batch(self, indices: torch.Tensor) -> Any:
        return self._wrap([_rows(column, indices) for column in self._columns])


class Items(Source):
    """Anything with `__len__` and `__getitem__`: its samples are picked one by one and collated."""

    def __init__(self, data: Any, collate: Collate | None) -> None:
        self._data = data
        self._pick: Callable[[list[int]], list[Any]] = getattr(data, "__getitems__", self._one_by_one)
        self._collate = _collate if collate is None else collate

    def __len__(self) -> int:
        return len(self._data)

    def batch(self, indices: torch.Tensor) -> Any:
        return self._collate(self._pick(indices.tolist()))

    def _one_by_one(self, indices: list[int]) -> list[Any]:
        return [self._data[index] for index in indices]


def source_of(data: Any, collate: Collate | None) -> Source | None:
    """The samples of `data`, or None if it has no positions."""
    if isinstance(data, Examples):
        if collate is not None:
            raise UsageError("collate is for samples that are picked one by one; examples of files are batches already")
        return data
    if isinstance(data, str | bytes | Mapping) or hasattr(data, "iloc"):
        raise UsageTypeError(f"data has its samples in a {type(data).__name__}; give a tuple of tensors, or a list")
    if isinstance(data, IterableDataset | type) or not hasattr(data, "__getitem__"):
        return None
    if not hasattr(data, "__len__"):
        raise UsageTypeError(f"data of type {type(data).__name__} has no length; give it __len__, or give an iterable")
    if isinstance(data, TensorDataset):
        data = data.tensors
    columns: Columns | None = None
    if isinstance(data, torch.Tensor | np.ndarray):
        columns = Columns([data], lambda batch: batch[0])
    elif isinstance(data, tuple) and data:
        columns = Columns(data, getattr(data, "_make", tuple))
    if columns is not None and collate is not None:
        raise UsageError("collate is for samples that are picked one by one; tensors and arrays are batches already")
    return Items(data, collate) if columns is None else columns


def _rows(column: torch.Tensor | np.ndarray[Any, Any], indices: torch.Tensor) -> Any:
    if isinstance(column, torch.Tensor):
        return column[indices.to(column.device)]
    rows = column[indices.numpy()]
    return torch.from_numpy(np.ascontiguousarray(rows)) if rows.dtype.kind in "biufc" else rows


def _collate(samples: list[Any]) -> Any:
    try:
        return default_collate(samples)
    except TypeError as error:
        first = str(error).splitlines()[0]
        raise UsageTypeError(f"samples like {_kind_of(samples[0])} need collate=, a function: {first}") from error


def _kind_of(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__}" + ("" if shape is None else f" of shape {list(shape)}")


class SampleShard(Shard):
    """A step takes the next `batch_size` x workers samples of the epoch's order, and each worker its block of them.

    The position is the number of samples that all workers together have taken from the order, which knows nothing of
    workers: another number of them, or another batch size, goes on at the same sample.
    """

    _kind, _unit = "samples", "samples_seen"
    _same_again = "go on with the same data, shuffle and seed, or begin again without this state"

    def __init__(
        self, source: Source, workers: Workers, *, batch_size: int, uneven: Uneven, shuffle: bool, seed: int
    ) -> None:
        super().__init__(workers, uneven)
        self._source = source
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self._num_samples = len(source)
        self._step_size = batch_size * workers.num
        self._order: tuple[int, torch.Tensor] | None = None
        workers.compare(
            {
                "len(data)": self._num_samples,
                "batch_size": batch_size,
                "uneven": uneven,
                "shuffle": shuffle,
                "seed": seed,
            },
            "give all of them the whole data with the same settings, or each an iterable of its own batches",
        )
        if self._num_samples == 0:
            raise UsageError("data has no samples")
        if uneven == "drop" and self._num_samples < self._step_size:
            raise UsageError(
                f"uneven='drop' would drop all {self._num_samples} samples, a step takes {batch_size} on each of "
                f"{workers.num} workers; make batch_size smaller, or use 'pad' or 'join'"
            )

    def __len__(self) -> int:
        steps, rest = divmod(self._num_samples, self._step_size)
        if self._uneven == "join":
            return steps + (block(rest, self._workers.index, self._workers.num)[1] > 0)
        return steps + (self._uneven == "pad" and rest > 0)

    @property
    def num_done(self) -> int:
        self._ask()
        return min(-(-self._count // self._step_size), len(self))

    def _batches(self) -> Iterator[Any]:
        while (places := self._places(self._count)) is not None:
            batch = self._source.batch(self._in_order(places)) if len(places) else None
            self._count = self._after(self._count)
            if batch is not None:
                yield batch

    def _after(self, count: int) -> int:
        """The position behind the step that begins at `count`."""
        return min(count + self._step_size, self._num_samples)

    def _places(self, count: int) -> torch.Tensor | None:
        """This worker's places, in the order of the epoch, of the step at `count`; None behind the last step."""
        left = self._num_samples - count
        if left <= 0 or (left < self._step_size and self._uneven == "drop"):
            return None
        is_whole = left >= self._step_size or self._uneven == "pad"
        first, size = block(self._step_size if is_whole else left, self._workers.index, self._workers.num)
        return torch.arange(count + first, count + first + size) % self._num_samples

    def _in_order(self, places: torch.Tensor) -> torch.Tensor:
        if not self._shuffle:
            return places
        if self._order is None or self._order[0] != self._epoch:
            self._order = (self._epoch, permutation(self._num_samples, self._seed, self._epoch))
        return self._order[1][places].long()

    def _needs_join(self) -> bool:
        rest = (self._num_samples - self._count) % self._step_size
        return self._uneven == "join" and 0 < rest < self._workers.num

    def _some_have_none(self) -> bool:
        return self._num_samples - self._count < self._workers.num

    def _settings(self) -> dict[str, Any]:
        return {"num_samples": self._num_samples, "shuffle": self._shuffle, "seed": self._seed}


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
