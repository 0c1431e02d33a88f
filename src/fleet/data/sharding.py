"""`fleet.data.shard`: looks at the data, chooses how it is divided, and says when every worker is to train on all."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from functools import cache
from types import CodeType
from typing import Any, get_args

from torch.utils.data import DataLoader, IterableDataset

from fleet.api import fleet
from fleet.checks import count_of, flag_of
from fleet.data.samples import Collate, LoaderShard, SampleShard, can_be_divided, source_of
from fleet.data.shards.base import Shard, Uneven
from fleet.data.shards.stream import StreamShard
from fleet.data.shards.workers import Workers
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


log = logging.getLogger(__name__)

_ABOUT_WORKERS = re.compile(r"rank|world_size|worker_index|worker_num|num_replicas|shard")
"""Names that code mentions which divides something among workers. Processes of a loader are something else."""


def warn_if_undivided(data: Any, workers: Workers) -> None:
    """One line, on worker 0, about a DataLoader or an IterableDataset that gives every worker the same batches.

    A function that returns one is this worker's own affair: nothing is said of it.
    """
    if workers.num == 1 or workers.index != 0:
        return
    dataset = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(dataset, IterableDataset):
        if not _knows_workers(type(dataset)):
            reason = f"{type(dataset).__name__} says nothing of workers"
            remedy = "read the part of fleet.worker_index() of fleet.worker_num() in its __iter__"
            _say(_line(data, reason, remedy))
    elif isinstance(data, DataLoader) and not _is_divided(data):
        reason = f"it has a sampler of its own, {_kind_of_sampler(data)}"
        remedy = "let shard divide the dataset itself, or use torch's DistributedSampler"
        _say(_line(data, reason, remedy))


def _line(data: Any, reason: str, remedy: str) -> str:
    kind = type(data).__name__
    return (
        f"fleet.data.shard does not divide this {kind} ({reason}), so every worker trains on what it yields there; "
        f"{remedy}. If it yields this worker's part already, say so by giving a function: shard(lambda: loader)"
    )


@cache
def _say(line: str) -> None:
    """Once, also where a shard is made anew in every epoch."""
    log.warning("%s", line)


def _is_divided(loader: DataLoader[Any]) -> bool:
    """Whether one of its samplers knows how many workers there are, as torch's DistributedSampler does."""
    batches = loader.batch_sampler
    parts = (loader.sampler, batches, getattr(batches, "sampler", None))
    return any(hasattr(part, "num_replicas") or _knows_workers(type(part)) for part in parts if part is not None)


def _kind_of_sampler(loader: DataLoader[Any]) -> str:
    sampler = loader.sampler if loader.batch_sampler is None else getattr(loader.batch_sampler, "sampler", None)
    return type(loader.batch_sampler if sampler is None else sampler).__name__


def _knows_workers(kind: type) -> bool:
    """Whether the code of a class mentions the workers of a job."""
    own = [one for one in kind.__mro__ if one.__module__.partition(".")[0] not in ("torch", "typing", "builtins")]
    methods = [getattr(value, "__code__", None) for one in own for value in vars(one).values()]
    return any(_mentions(code) for code in methods if code is not None)


def _mentions(code: CodeType) -> bool:
    constants = [one for one in code.co_consts if isinstance(one, str | CodeType)]
    names = [*code.co_names, *code.co_varnames, *(one for one in constants if isinstance(one, str))]
    inner = [one for one in constants if isinstance(one, CodeType)]
    return any(map(_ABOUT_WORKERS.search, names)) or any(map(_mentions, inner))
