"""`PyReader` and `DataLoader.from_generator`: batches of a Python generator, made ahead in a thread.

    reader = PyReader(feed_list=[x, y], capacity=8)
    reader.decorate_sample_list_generator(batches)     # batches() yields lists of samples
    for feed in reader():
        exe.run(feed=feed, fetch_list=[loss])

With `iterable=False` the program reads by itself: `reader.start()`, then `exe.run(program)` without a feed until it
raises EOFException, then `reader.reset()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from fleet.errors import FleetError, NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet.static.batches import Batches
from fleet.static.executor.lod import LoDTensor
from fleet.static.executor.place import device_of
from fleet.static.feeding import DataFeeder, Feed
from fleet.static.variable import Variable

DEFAULT_CAPACITY = 8

Generator = Callable[[], Iterable[Any]]


class EOFException(FleetError):  # noqa: N818 - the name that scripts catch
    """A reader that a program reads from has no more batches; `reset()` it."""


class GeneratorLoader:
    """Batches of a generator. `capacity` is how many are made ahead.

    With `use_double_buffer` a batch goes to the GPU while the one before is computed, if `places` names one. A batch is
    a feed, or with `return_list` the list of its values.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        if not feed_list:
            raise UsageError("feed_list must name the variables that the generator gives values for, got nothing")
        self._capacity = DEFAULT_CAPACITY if capacity is None else capacity
        if type(self._capacity) is not int or self._capacity < 1:
            raise UsageError(f"capacity must be >= 1, got {capacity!r}; it is the number of batches made ahead")
        if return_list and not iterable:
            raise UsageError("return_list needs iterable=True: a program reads by the names of its variables")
        self._feeder = DataFeeder(feed_list)
        self.names = [var.name for var in self._feeder.feed_vars]
        """The variables that a batch has values for."""
        self._is_iterable = bool(iterable)
        self._gives_list = bool(return_list)
        self._sends_ahead = bool(use_double_buffer)
        self._make: Generator | None = None
        self._running: Batches | None = None
        if not iterable:
            self._feeder.feed_vars[0].block.program.add_reader(self)

    def set_sample_generator(
        self, reader: Generator, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Batches of `batch_size` of the samples that `reader()` gives one by one."""
        if type(batch_size) is not int or batch_size < 1:
            raise UsageError(f"batch_size must be >= 1, got {batch_size!r}")

        def batches() -> Iterator[Feed]:
            samples = iter(reader())
            while batch := list(islice(samples, batch_size)):
                if len(batch) == batch_size or not drop_last:
                    yield self._feeder.feed(batch)

        return self._set(reader, batches, places)

    def set_sample_list_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Batches from lists of samples."""
        return self._set(reader, _mapped(self._feeder.feed, reader), places)

    def set_batch_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Batches as they are: `reader()` gives a list or tuple of arrays, one for each variable."""
        return self._set(reader, _mapped(self._named, reader), places)

    decorate_sample_generator = set_sample_generator
    decorate_sample_list_generator = set_sample_list_generator
    decorate_batch_generator = set_batch_generator

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        """One pass; it may be left at any time, and another begun."""
        if not self._is_iterable:
            raise UsageError(
                "this reader was made with iterable=False: call start() and run the program without a feed"
            )
        return Batches(self._ready(), self._capacity)

    def start(self) -> None:
        """Begin a pass that the program reads by itself."""
        if self._is_iterable:
            raise UsageError("start() needs iterable=False; iterate over the reader and feed what it gives")
        if self._running is not None:
            raise UsageError("this reader was started before; call reset() when a pass has ended")
        self._running = Batches(self._ready(), self._capacity)

    def reset(self) -> None:
        """End a pass, at its end or before it."""
        if self._is_iterable:
            raise UsageError("reset() needs iterable=False; leave the loop over the reader instead")
        if self._running is not None:
            self._running.close()
            self._running = None

    @property
    def is_started(self) -> bool:
        return self._running is not None

    def read(self) -> Feed:
        """The next batch of a pass that was started; EOFException after the last."""
        if self._running is None:
            raise NotReadyError("this reader has not been started; call start()")
        try:
            feed: Feed = next(self._running)
        except StopIteration:
            raise EOFException(f"the reader of {', '.join(self.names)} has no more batches; call reset()") from None
        return feed

    def _set(self, given: Generator, batches: Generator, places: Any) -> GeneratorLoader:
        if not callable(given):
            raise UsageTypeError(f"a reader must be a function that gives an iterator, got {type(given).__name__}")
        several = places() if callable(places) else places
        several = list(several) if isinstance(several, list | tuple) else [] if several is None else [several]
        if len(several) > 1:
            raise NotSupportedError(
                f"{len(several)} places in one process are not built; start a process for each: fleetrun --worker_num"
            )
        device = device_of(several[0]) if several else torch.device("cpu")
        if device.type != "cpu" and self._sends_ahead:
            batches = _mapped(lambda feed: _sent(feed, device), batches)
        self._make = _mapped(self._listed, batches) if self._gives_list else batches
        return self

    def _ready(self) -> Generator:
        if self._make is None:
            raise NotReadyError(
                "this reader has no generator; set one with set_sample_list_generator() or another set_*"
            )
        return self._make

    def _named(self, values: Any) -> Feed:
        if not isinstance(values, list | tuple) or len(values) != len(self.names):
            got = f"{len(values)} values" if isinstance(values, list | tuple) else type(values).__name__
            raise UsageError(f"a batch must be a list of {len(self.names)} arrays ({', '.join(self.names)}), got {got}")
        return dict(zip(self.names, values, strict=True))

    def _listed(self, feed: Feed) -> list[Any]:
        return [feed[name] for name in self.names]


class PyReader(GeneratorLoader):
    """A GeneratorLoader under its first name."""


class DataLoader:
    """Makes loaders."""

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """A loader of a generator's batches. `drop_last` concerns several devices; a process has one."""
        del drop_last
        if use_multiprocess:
            raise NotSupportedError(
                "use_multiprocess is not built; leave it out, or read files with train_from_dataset()"
            )
        return GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list)


def _mapped(change: Callable[[Any], Any], make: Generator) -> Generator:
    """A reader that changes what another gives."""

    def changed() -> Iterator[Any]:
        for one in make():
            yield change(one)

    return changed


def _sent(feed: Feed, device: torch.device) -> Feed:
    """A batch on its way to a GPU."""
    return {name: _moved(value, device) for name, value in feed.items()}


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, LoDTensor):
        return LoDTensor(value.values.to(device), value.offsets)
    tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
    return tensor.to(device) if isinstance(tensor, torch.Tensor) else tensor
