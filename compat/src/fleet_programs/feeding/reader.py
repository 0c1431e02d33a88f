"""`PyReader` and `DataLoader.from_generator`: batches of a Python generator, made ahead in a thread.

    reader = PyReader(feed_list=[x, y], capacity=8)
    reader.decorate_sample_list_generator(batches)     # batches() yields lists of samples
    for feed in reader():
        exe.run(feed=feed, fetch_list=[loss])

With `iterable=False` the program reads by itself: `reader.start()`, then `exe.run(program)` without a feed until it
raises EOFException, then `reader.reset()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fleet.errors import FleetError, NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_programs.executor.feeds import Feed, copied, device_for, joined, num_rows, sent
from fleet_programs.feeding.batches import Batches
from fleet_programs.feeding.feeding import DataFeeder
from fleet_programs.feeding.loader import Loader
from fleet_programs.program.variable import Variable


class EOFException(FleetError):  # noqa: N818 - the name that scripts catch
    """A reader that a program reads from has no more batches; `reset()` it."""


class GeneratorLoader(Loader):
    """Batches of a generator for the variables of `feed_list`; a batch is a feed, or with `return_list` its values.

    See `Loader` for `drop_last`.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> None:
        if use_multiprocess:
            raise NotSupportedError(
                "use_multiprocess is not built; leave it out, or read files with train_from_dataset()"
            )
        if not feed_list:
            raise UsageError("feed_list must name the variables that the generator gives values for, got nothing")
        super().__init__(capacity, use_double_buffer, drop_last)
        if return_list and not iterable:
            raise UsageError("return_list needs iterable=True: a program reads by the names of its variables")
        self._feeder = DataFeeder(feed_list)
        self.names = [var.name for var in self.variables]
        """The variables that a batch has values for."""
        self._is_iterable = bool(iterable)
        self._gives_list = bool(return_list)
        self._running: Batches | None = None
        if not iterable:
            self.variables[0].block.program.add_reader(self)

    @property
    def variables(self) -> list[Variable]:
        """What a batch has values for."""
        return self._feeder.feed_vars

    @property
    def iterable(self) -> bool:
        """Whether scripts iterate over it; else the program reads by itself."""
        return self._is_iterable

    def __iter__(self) -> Iterator[Any]:
        """One pass; it may be left at any time, and another begun."""
        if not self._is_iterable:
            raise UsageError(
                "this reader was made with iterable=False: call start() and run the program without a feed"
            )
        return self._begin()

    def start(self) -> None:
        """Begin a pass that the program reads by itself."""
        if self._is_iterable:
            raise UsageError("start() needs iterable=False; iterate over the reader and feed what it gives")
        if self._running is not None:
            raise UsageError("this reader was started before; call reset() when a pass has ended")
        self._running = self._begin()

    def reset(self) -> None:
        """End a pass, at its end or before it."""
        if self._is_iterable:
            raise UsageError("reset() needs iterable=False; leave the loop over the reader instead")
        if self._running is not None:
            self._running.close()
            self._running = None

    @property
    def is_started(self) -> bool:
        """Whether a pass runs that the program reads by itself."""
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

    def _of_samples(self, samples: list[Any]) -> Feed:
        return self._feeder.feed(samples)

    def _of_arrays(self, arrays: Any) -> Feed:
        if not isinstance(arrays, list | tuple) or len(arrays) != len(self.names):
            got = f"{len(arrays)} values" if isinstance(arrays, list | tuple) else type(arrays).__name__
            raise UsageError(f"a batch must be a list of {len(self.names)} arrays ({', '.join(self.names)}), got {got}")
        # A generator may fill the same arrays anew while these wait their turn.
        return {name: copied(array) for name, array in zip(self.names, arrays, strict=True)}

    def _joined(self, batches: list[Any]) -> Feed:
        return joined(batches, {var.name: var for var in self.variables})

    def _given(self, batch: Any) -> Any:
        return [batch[name] for name in self.names] if self._gives_list else batch


class PyReader(GeneratorLoader):
    """A GeneratorLoader under its first name."""


class DatasetLoader:
    """The batches of a dataset of text files, on a device; with `drop_last` without those shorter than the first."""

    def __init__(self, dataset: Iterable[Feed], places: Any = None, drop_last: bool = True) -> None:
        if not isinstance(dataset, Iterable):
            raise UsageTypeError(f"dataset must be an InMemoryDataset or a QueueDataset, got {type(dataset).__name__}")
        self._dataset = dataset
        self._drops_last = bool(drop_last)
        self._device, count = device_for(places)
        if count > 1:
            raise NotSupportedError(f"from_dataset: {count} places are not built; give one")

    def __call__(self) -> Iterator[Feed]:
        return iter(self)

    def __iter__(self) -> Iterator[Feed]:
        """One pass over the dataset."""
        wanted = 0
        for feed in self._dataset:
            count = num_rows(feed)
            wanted = wanted or count
            if count >= wanted or not self._drops_last:
                yield feed if self._device.type == "cpu" else sent(feed, self._device)


class DataLoader:
    """Makes loaders."""

    from_generator = GeneratorLoader

    @staticmethod
    def from_dataset(dataset: Iterable[Feed], places: Any = None, drop_last: bool = True) -> DatasetLoader:
        """The feeds of a dataset, whose settings say how large a batch is."""
        return DatasetLoader(dataset, places, drop_last)
