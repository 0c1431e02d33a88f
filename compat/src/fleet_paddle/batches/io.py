"""Data for loops over tensors: torch's loader with the arguments of version 2.0; generators for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch.utils import data

from fleet.errors import NotSupportedError
from fleet_paddle import mode
from fleet_paddle.batches.collating import default_collate_fn, default_convert_fn
from fleet_paddle.batches.generated import GeneratedTensors
from fleet_paddle.batches.program_loaders import GeneratorLoader
from fleet_paddle.batches.sampling import (
    BatchSampler,
    DistributedBatchSampler,
    RandomSampler,
    Sampler,
    SequenceSampler,
    WeightedRandomSampler,
)
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_paddle.taking import Taking
from fleet_programs.executor.place import device_of
from fleet_programs.feeding.reader import DataLoader as OfPrograms

ChainDataset = data.ChainDataset
ConcatDataset = data.ConcatDataset
Dataset = data.Dataset
IterableDataset = data.IterableDataset
Subset = data.Subset
get_worker_info = data.get_worker_info
random_split = data.random_split

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ComposeDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedBatchSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequenceSampler",
    "Subset",
    "TensorDataset",
    "WeightedRandomSampler",
    "get_worker_info",
    "random_split",
]


class TensorDataset(data.TensorDataset):
    """Samples of tensors or arrays that are as long as each other, given one by one or in one list."""

    def __init__(self, *tensors: Any) -> None:
        several = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
        super().__init__(*(torch.as_tensor(one) for one in several))

    def __getitem__(self, place: Any) -> tuple[Any, ...]:
        return tuple(as_paddle(one[place]) if type(one) is Tensor else one[place] for one in self.tensors)


class ComposeDataset(data.Dataset[Any]):
    """Datasets side by side: a sample has the fields of all their samples at its place."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)

    def __len__(self) -> int:
        return min(len(one) for one in self.datasets)

    def __getitem__(self, place: int) -> tuple[Any, ...]:
        samples = [one[place] for one in self.datasets]
        return tuple(field for one in samples for field in (one if isinstance(one, list | tuple) else [one]))


class DataLoader(Taking, data.DataLoader[Any]):
    """Batches of a dataset as tensors, in lists, or in dicts where samples are; arrays of a `collate_fn` become them.

    They come on the first of `places`, or where new tensors are made. `use_buffer_reader` and `use_shared_memory` say
    how they travel, and torch does it its own way.
    """

    from_dataset = staticmethod(OfPrograms.from_dataset)

    takes = (
        "dataset, feed_list=None, places=None, return_list=True, batch_sampler=None, batch_size=1, shuffle=False, "
        "drop_last=False, collate_fn=None, num_workers=0, use_buffer_reader=True, use_shared_memory=True, timeout=0, "
        "worker_init_fn=None, persistent_workers=False"
    )

    def take(self, given: dict[str, Any]) -> None:
        """torch's loader takes what is not Paddle's own."""
        if given.pop("feed_list") is not None or not given.pop("return_list"):
            raise NotSupportedError(
                "DataLoader: feed_list and return_list=False are for programs; use DataLoader.from_generator(feed_list)"
            )
        places = given.pop("places")
        place = places[0] if isinstance(places, list | tuple) else places
        self._place = None if place is None else device_of(place)
        del given["use_buffer_reader"], given["use_shared_memory"]
        if given["batch_sampler"] is not None:
            del given["batch_size"], given["shuffle"], given["drop_last"]
        else:
            given["shuffle"] = given["shuffle"] or None
            given["drop_last"] = bool(given["drop_last"] and given["batch_size"] is not None)  # samples alone are whole
        if given["collate_fn"] is None:
            is_batched = given["batch_sampler"] is not None or given["batch_size"] is not None
            given["collate_fn"] = default_collate_fn if is_batched else default_convert_fn
        data.DataLoader.__init__(self, **given)

    @staticmethod
    @wraps(GeneratorLoader)
    def from_generator(*args: Any, **named: Any) -> Any:
        """A loader of a generator's batches: for the variables of a program, or, without any, lists of tensors."""
        given = signature(GeneratorLoader).bind(*args, **named).arguments
        if given.get("feed_list") or mode.is_static():
            return GeneratorLoader(*args, **named)
        if not given.get("iterable", True) or given.get("use_multiprocess"):
            raise NotSupportedError(
                "from_generator: iterable=False is for programs and use_multiprocess is not built; leave them out"
            )
        return GeneratedTensors(given.get("capacity"))

    def __call__(self) -> Iterator[Any]:
        """`for batch in loader():` means the same as `for batch in loader:`."""
        return iter(self)

    def __iter__(self) -> Any:
        device = current() if self._place is None else self._place
        for batch in super().__iter__():
            yield tensors_of([batch] if isinstance(batch, torch.Tensor | np.ndarray) else batch, device)


def tensors_of(batch: Any, device: torch.device) -> Any:
    """A batch with tensors of ours, on the device, where it has tensors and arrays, and lists where it has tuples."""
    if isinstance(batch, torch.Tensor):
        return as_paddle(batch.to(device))
    if isinstance(batch, np.ndarray):
        return as_paddle(torch.as_tensor(batch).to(device)) if batch.dtype.kind in "biufc" else batch
    if isinstance(batch, Mapping):
        return {key: tensors_of(one, device) for key, one in batch.items()}
    return [tensors_of(one, device) for one in batch] if isinstance(batch, list | tuple) else batch
