"""Says when every worker is about to train on everything: a loader that nobody has divided."""

from __future__ import annotations

import logging
import re
from functools import cache
from types import CodeType
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from fleet.data.shards.workers import Workers

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
