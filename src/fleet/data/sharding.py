"""`fleet.data.shard`: looks at the data and chooses how it is divided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from torch.utils.data import DataLoader

from fleet.api import fleet
from fleet.data.columns.checks import count_of, flag_of
from fleet.data.loader import LoaderShard, can_be_divided
from fleet.data.shards.base import Shard, Uneven
from fleet.data.shards.stream import StreamShard
from fleet.data.shards.undivided import warn_if_undivided
from fleet.data.shards.workers import Workers
from fleet.data.source import Collate, SampleShard, source_of
from fleet.errors import UsageError, UsageTypeError


def shard(
    data: Any,
    batch_size: int | None = None,
    *,
    uneven: Uneven = "pad",
    shuffle: bool = False,
    seed: int = 0,
    collate: Collate | None = None,
) -> Shard:
    """This worker's batches of `data`; every worker calls it, after `fleet.init()`.

    Data with `__len__` and `__getitem__` (a tensor or array, a tuple of them, a list, a torch Dataset) is the whole
    data, the same on every worker: `batch_size` samples for each worker are taken step by step, in order or, with
    `shuffle`, in an order of `seed` and the epoch. A DataLoader over such data, with a sampler of torch's, is divided
    the same way and keeps its own batch size, processes and collate_fn. Any other iterable (another DataLoader, an
    IterableDataset, a generator or the function that makes one) is this worker's own stream of batches, and
    `batch_size` is left out.

    `uneven` says what happens where samples or batches do not come out even: "pad" fills up with the first ones, "drop"
    leaves out what not all workers have, "join" adds and leaves out nothing: workers that have run out take part in the
    others' steps, and the mean is over those that have data.

    >>> from fleet import init, shutdown
    >>> job = init()
    >>> [batch.tolist() for batch in shard([1, 2, 3], batch_size=2)]
    [[1, 2], [3, 1]]
    >>> shutdown()
    """
    workers = Workers(fleet)
    if uneven not in get_args(Uneven):
        raise UsageError(f"uneven must be 'pad', 'drop' or 'join', got {uneven!r}")
    flag_of("shuffle", shuffle)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageTypeError(f"seed must be an int, got {seed!r}")
    if collate is not None and not callable(collate):
        raise UsageTypeError(f"collate must be a function from a list of samples to a batch, got {collate!r}")
    source = source_of(data, collate)
    if source is not None:
        size = _checked(batch_size)
        return SampleShard(source, workers, batch_size=size, uneven=uneven, shuffle=shuffle, seed=seed)
    kind = type(data).__name__
    if not isinstance(data, Iterable) and not callable(data):
        raise UsageTypeError(f"data must have samples by position, or be an iterable or make one; got {kind}")
    given = {"batch_size": batch_size is not None, "shuffle": shuffle, "collate": collate is not None}
    is_divided = isinstance(data, DataLoader) and can_be_divided(data)
    if wrong := [name for name, is_given in given.items() if is_given]:
        what = "which has its own" if is_divided else "which is this worker's own stream of batches"
        raise UsageError(
            f"{' and '.join(wrong)} cannot be used with data of type {kind}, {what}; let the "
            f"{'loader' if is_divided else 'stream'} do it, or give samples with __len__ and __getitem__"
        )
    if is_divided:
        return LoaderShard(data, workers, uneven=uneven, seed=seed)
    warn_if_undivided(data, workers)
    return StreamShard(data, workers, uneven=uneven)


def _checked(batch_size: object) -> int:
    if batch_size is None:
        raise UsageError(
            "batch_size is missing: data with positions is divided into batches of samples; to hand out batches that "
            "this worker has in a list, give a function that returns the list"
        )
    return count_of("batch_size", batch_size)
