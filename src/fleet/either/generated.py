"""Batches of a Python generator as lists of tensors: what `DataLoader.from_generator` gives without a program.

loader = DataLoader.from_generator(capacity=8)
loader.set_sample_list_generator(batches)     # batches() yields lists of samples
for x, y in loader():
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from fleet.errors import NotReadyError, UsageError
from fleet.imperative import to_tensor
from fleet.imperative.tensor import Tensor
from fleet.static.batches import Batches

DEFAULT_CAPACITY = 8

Generator = Callable[[], Iterable[Any]]


class GeneratedTensors:
    """A loader whose batches a thread makes at most `capacity` ahead; each is a list of tensors, one for each field."""

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = DEFAULT_CAPACITY if capacity is None else capacity
        if type(self._capacity) is not int or self._capacity < 1:
            raise UsageError(f"capacity must be >= 1, got {capacity!r}; it is the number of batches made ahead")
        self._make: Generator | None = None
        self._place: Any = None

    def set_sample_generator(
        self, reader: Generator, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratedTensors:
        """`reader()` yields samples, which are put together; `drop_last` leaves out a batch that is not full."""
        if batch_size < 1:
            raise UsageError(f"set_sample_generator: batch_size must be >= 1, got {batch_size}")

        def lists() -> Iterator[Any]:
            samples = iter(reader())
            while batch := list(islice(samples, batch_size)):
                if len(batch) == batch_size or not drop_last:
                    yield batch

        return self.set_sample_list_generator(lists, places)

    def set_sample_list_generator(self, reader: Generator, places: Any = None) -> GeneratedTensors:
        """`reader()` yields lists of samples."""
        return self.set_batch_generator(lambda: (_fields(samples) for samples in reader()), places)

    def set_batch_generator(self, reader: Generator, places: Any = None) -> GeneratedTensors:
        """`reader()` yields batches: lists of arrays or tensors."""
        self._make = reader
        self._place = places[0] if isinstance(places, list | tuple) else places
        return self

    def __call__(self) -> Iterator[list[Tensor]]:
        return iter(self)

    def __iter__(self) -> Iterator[list[Tensor]]:
        """One pass; it may be left at any time, and another begun."""
        if self._make is None:
            raise NotReadyError("this loader has no generator; call set_batch_generator() or one of its kind")
        batches = Batches(self._make, self._capacity)
        try:
            for batch in batches:
                yield [to_tensor(one, place=self._place) for one in batch]
        finally:
            batches.close()


def _fields(samples: Any) -> list[Any]:
    """Lists of samples as an array for each field."""
    rows = [one if isinstance(one, list | tuple) else (one,) for one in samples]
    return [np.stack([np.asarray(one) for one in field]) for field in zip(*rows, strict=True)]
