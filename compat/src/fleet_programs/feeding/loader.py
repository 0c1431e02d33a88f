"""What loaders of generators share: a thread makes batches ahead, in the way that a subclass makes one."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Self

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs.executor.feeds import device_for, sent
from fleet_programs.feeding.batches import Batches

DEFAULT_CAPACITY = 8

Generator = Callable[[], Iterable[Any]]


class Loader(ABC):
    """Batches of a generator. `capacity` is how many are made ahead.

    With `use_double_buffer` a batch goes to the GPU while the one before is computed, if `places` names one. Several
    CPU places take a batch each and compute them as one; with `drop_last` what is left for fewer of them is dropped.
    """

    def __init__(self, capacity: int | None = None, use_double_buffer: bool = True, drop_last: bool = True) -> None:
        self._capacity = DEFAULT_CAPACITY if capacity is None else capacity
        if type(self._capacity) is not int or self._capacity < 1:
            raise UsageError(f"capacity must be >= 1, got {capacity!r}; it is the number of batches made ahead")
        self._sends_ahead = bool(use_double_buffer)
        self._drops_last = bool(drop_last)
        self.place: object = None
        """Where batches are sent ahead, unless a generator comes with its own `places`."""
        self._make: Generator | None = None
        self._newest: Callable[[], Batches | None] = lambda: None
        self._by_hand: Iterator[Any] | None = None

    @abstractmethod
    def _of_samples(self, samples: list[Any]) -> Any:
        """The batch of a list of samples."""

    @abstractmethod
    def _of_arrays(self, arrays: Any) -> Any:
        """The batch of a list or tuple of arrays."""

    @abstractmethod
    def _joined(self, batches: list[Any]) -> Any:
        """One batch of several."""

    def _given(self, batch: Any) -> Any:
        """What a loop gets of a batch."""
        return batch

    def set_sample_generator(
        self, reader: Generator, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> Self:
        """Batches of `batch_size` of the samples that `reader()` gives one by one."""
        if type(batch_size) is not int or batch_size < 1:
            raise UsageError(f"batch_size must be >= 1, got {batch_size!r}")

        def batches() -> Iterator[Any]:
            samples = iter(reader())
            while batch := list(islice(samples, batch_size)):
                if len(batch) == batch_size or not drop_last:
                    yield self._of_samples(batch)

        return self._set(reader, batches, places)

    def set_sample_list_generator(self, reader: Generator, places: Any = None) -> Self:
        """Batches from lists of samples."""
        return self._set(reader, _mapped(self._of_samples, reader), places)

    def set_batch_generator(self, reader: Generator, places: Any = None) -> Self:
        """Batches as they are: `reader()` gives a list or tuple of arrays, one for each variable."""
        return self._set(reader, _mapped(self._of_arrays, reader), places)

    decorate_sample_generator = set_sample_generator
    decorate_sample_list_generator = set_sample_list_generator
    decorate_batch_generator = set_batch_generator
    decorate_paddle_reader = set_sample_list_generator
    decorate_tensor_provider = set_batch_generator

    @property
    def iterable(self) -> bool:
        """Whether scripts iterate over it."""
        return True

    @property
    def queue(self) -> Queue:
        """The batches that lie ready."""
        return Queue(self._newest(), self._capacity)

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        """One pass; it may be left at any time, and another begun."""
        return self._begin()

    def __next__(self) -> Any:
        """The next batch of a pass of its own, which begins with the first call and anew after its end."""
        if self._by_hand is None:
            self._by_hand = iter(self)
        try:
            return next(self._by_hand)
        except BaseException:
            self._by_hand = None
            raise

    next = __next__

    def _begin(self) -> Batches:
        if self._make is None:
            raise NotReadyError(
                "this reader has no generator; set one with set_sample_list_generator() or another set_*"
            )
        made = Batches(self._make, self._capacity)
        self._newest = weakref.ref(made)  # a pass that is left ends, so nobody else may hold it
        return made

    def _set(self, given: Generator, batches: Generator, places: Any) -> Self:
        if not callable(given):
            raise UsageTypeError(f"a reader must be a function that gives an iterator, got {type(given).__name__}")
        device, count = device_for(self.place if places is None else places)
        if count > 1:
            batches = self._grouped(batches, count)
        if device.type != "cpu" and self._sends_ahead:
            batches = _mapped(lambda batch: sent(batch, device), batches)
        self._make = _mapped(self._given, batches)
        return self

    def _grouped(self, make: Generator, count: int) -> Generator:
        def groups() -> Iterator[Any]:
            batches = iter(make())
            while group := list(islice(batches, count)):
                if len(group) == count or not self._drops_last:
                    yield self._joined(group)

        return groups


class Queue:
    """What a script may ask about the batches that lie ready."""

    def __init__(self, batches: Batches | None, capacity: int) -> None:
        self._batches = batches
        self._capacity = capacity

    def size(self) -> int:
        """How many there are now."""
        return 0 if self._batches is None else self._batches.num_ready

    def capacity(self) -> int:
        """How many there may be."""
        return self._capacity


def _mapped(change: Callable[[Any], Any], make: Generator) -> Generator:
    """A reader that changes what another gives."""

    def changed() -> Iterator[Any]:
        for one in make():
            yield change(one)

    return changed
