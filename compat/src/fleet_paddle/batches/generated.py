"""Batches of a Python generator as lists of tensors: what `DataLoader.from_generator` gives without a program.

loader = DataLoader.from_generator(capacity=8)
loader.set_sample_list_generator(batches)     # batches() yields lists of samples
for x, y in loader():
    ...
"""

from __future__ import annotations

from typing import Any, Self

import torch

from fleet_paddle.batches.collating import default_collate_fn, fields_of, regular
from fleet_paddle.imperative.creation import to_tensor
from fleet_paddle.imperative.tensor import Tensor
from fleet_programs.executor.feeds import copied
from fleet_programs.feeding.loader import Generator, Loader


class GeneratedTensors(Loader):
    """A loader whose batches are lists of tensors, one for each field, on `places` or where new tensors are made."""

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__(capacity)
        self._place: Any = None

    def _of_samples(self, samples: list[Any]) -> list[Any]:
        rows = [one if isinstance(one, list | tuple) else (one,) for one in samples]
        return [default_collate_fn([regular(one) for one in field]) for field in fields_of(rows)]

    def _of_arrays(self, arrays: Any) -> list[Any]:
        return [copied(one) for one in arrays]

    def _joined(self, batches: list[Any]) -> list[Any]:
        return [torch.cat([torch.as_tensor(one) for one in field]) for field in zip(*batches, strict=True)]

    def _given(self, batch: Any) -> list[Tensor]:
        return [to_tensor(one, place=self._place) for one in batch]

    def _set(self, given: Generator, batches: Generator, places: Any) -> Self:
        self._place = places[0] if isinstance(places, list | tuple) else places
        return super()._set(given, batches, places)
