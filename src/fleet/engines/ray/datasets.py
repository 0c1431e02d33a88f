"""Datasets of Ray beside servers: each worker has a part that its next life finds again, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ray
from ray.data import DataContext, Dataset
from ray.train.v2._internal.execution.callback import WorkerGroupCallback


def batches(name: str = "train", **how: Any) -> Callable[[], Iterable[Any]]:
    """This worker's batches of a dataset that the Trainer was given, for `fleet.data.shard`.

    `how` goes to Ray's `iter_torch_batches`; its order must be the same whenever it is read (with a
    `local_shuffle_buffer_size`, give a `local_shuffle_seed`).

        for batch in fleet.data.shard(fleet.ray.batches("train", batch_size=256), uneven="drop"):
            ...
    """
    shard = ray.train.get_dataset_shard(name)
    return lambda: shard.iter_torch_batches(**how)


def divided(datasets: Mapping[str, Any], num_workers: int) -> dict[str, list[Dataset]]:
    """Each worker's part of each dataset: as many rows as the others', give or take one. Reads all of it, once."""
    found = {}
    for name, given in datasets.items():
        whole = (given() if callable(given) else given).materialize()
        ends = [whole.count() * worker // num_workers for worker in range(1, num_workers)]
        found[name] = whole.split_at_indices(ends) if ends else [whole]
    return found


class DividedDatasets(WorkerGroupCallback):
    """In the place of Ray's own callback, whose parts are for workers that all begin at once."""

    def __init__(self, parts: Mapping[str, Sequence[Dataset]]) -> None:
        self._parts = parts
        self._context = DataContext.get_current()

    def before_init_train_context(self, workers: Sequence[Any]) -> dict[str, list[Any]]:
        """What workers that begin, all or one, find their part by."""
        return {"dataset_shard_provider": [_Parts(self._parts, self._context)] * len(workers)}


class _Parts:
    """Answers `ray.train.get_dataset_shard` in a worker."""

    def __init__(self, parts: Mapping[str, Sequence[Dataset]], context: DataContext) -> None:
        self._parts = parts
        self._context = context

    def get_dataset_shard(self, dataset_info: Any) -> Any:
        if dataset_info.dataset_name not in self._parts:
            raise KeyError(f"no dataset {dataset_info.dataset_name!r} was given to the Trainer as datasets=")
        DataContext._set_current(self._context)
        return self._parts[dataset_info.dataset_name][dataset_info.world_rank].iterator()
