"""Readers: functions that give an iterator of samples when called, and what makes new readers of them.

    batches = batch(shuffle(uci_housing.train(), buf_size=500), batch_size=20)
    for samples in batches():
        exe.run(feed=feeder.feed(samples), fetch_list=[loss])

Every call of a reader is a new pass over its data.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import chain as _chain
from itertools import islice
from itertools import zip_longest as _zip_longest
from typing import Any

from fleet.checks import count_of
from fleet.errors import UsageError, UsageTypeError
from fleet_programs.feeding.batches import PATIENCE_S, Batches

Reader = Callable[[], Iterable[Any]]

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs
_NOTHING = object()


class ComposeNotAligned(UsageError):  # noqa: N818 - the name that scripts catch
    """Readers that were composed have different numbers of samples."""


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """Lists of `batch_size` samples; the last one is shorter, or left out with `drop_last`."""
    _reader("batch", reader)
    size = count_of("batch: batch_size", batch_size)

    def batches() -> Iterator[list[Any]]:
        samples = iter(reader())
        while part := list(islice(samples, size)):
            if len(part) == size or not drop_last:
                yield part

    return batches


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """The samples in another order: `buf_size` of them at a time are read and mixed, by the module `random`."""
    _reader("shuffle", reader)
    size = count_of("shuffle: buf_size", buf_size)

    def shuffled() -> Iterator[Any]:
        samples = iter(reader())
        while part := list(islice(samples, size)):
            random.shuffle(part)
            yield from part

    return shuffled


def firstn(reader: Reader, n: int) -> Reader:
    """The first `n` samples."""
    _reader("firstn", reader)
    number = count_of("firstn: n", n, least=0)
    return lambda: islice(reader(), number)


def cache(reader: Reader) -> Reader:
    """The same samples in every pass, kept in memory by the first."""
    _reader("cache", reader)
    kept: list[Any] = []
    is_full = False

    def cached() -> Iterator[Any]:
        nonlocal kept, is_full
        if not is_full:
            kept, is_full = list(reader()), True
        return iter(kept)

    return cached


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """`func` of one sample from each reader; ends with the shortest."""
    for one in readers:
        _reader("map_readers", one)
    return lambda: map(func, *(one() for one in readers))


def chain(*readers: Reader) -> Reader:
    """All samples of the first reader, then all of the second, ..."""
    for one in readers:
        _reader("chain", one)
    return lambda: _chain.from_iterable(one() for one in readers)


def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """One sample made of one from each reader: 1 and (2, 3) become (1, 2, 3).

    Readers of different lengths raise ComposeNotAligned at the end of the shortest; without `check_alignment` the
    rest of the longer ones is left out.
    """
    for one in readers:
        _reader("compose", one)

    def flat(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_chain.from_iterable(part if isinstance(part, tuple) else (part,) for part in parts))

    def composed() -> Iterator[tuple[Any, ...]]:
        passes = [one() for one in readers]
        if not check_alignment:
            yield from map(flat, zip(*passes, strict=False))
            return
        for parts in _zip_longest(*passes, fillvalue=_NOTHING):
            short = [index for index, part in enumerate(parts) if part is _NOTHING]
            if short:
                raise ComposeNotAligned(
                    f"compose: reader {short[0]} has fewer samples than another; make them alike, or give "
                    "check_alignment=False to leave out the rest"
                )
            yield flat(parts)

    return composed


def buffered(reader: Reader, size: int) -> Reader:
    """The same samples, made by a thread up to `size` ahead."""
    _reader("buffered", reader)
    capacity = count_of("buffered: size", size)
    return lambda: Batches(reader, capacity)


def xmap_readers(
    mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False
) -> Reader:
    """`mapper` of every sample, by `process_num` threads, at most `buffer_size` samples ahead.

    With `order` samples come in the order of the reader, else as they are ready.
    """
    _reader("xmap_readers", reader)
    threads = count_of("xmap_readers: process_num", process_num)
    ahead = count_of("xmap_readers: buffer_size", buffer_size)

    def mapped() -> Iterator[Any]:
        with ThreadPoolExecutor(threads, thread_name_prefix="fleet-xmap") as pool:
            samples = iter(reader())
            under_way = deque(pool.submit(mapper, sample) for sample in islice(samples, ahead))
            try:
                while under_way:
                    done = _next(under_way, order)
                    under_way.extend(pool.submit(mapper, sample) for sample in islice(samples, 1))
                    yield done.result()
            finally:
                for left in under_way:
                    left.cancel()

    return mapped


def multiprocess_reader(readers: list[Reader], use_pipe: bool = True, queue_size: int = 1000) -> Reader:  # noqa: ARG001
    """The samples of all readers, in turns, each read ahead by a thread of its own; with or without a pipe."""
    if not readers:
        raise UsageError("multiprocess_reader: readers must be a list of readers, got an empty one")
    for one in readers:
        _reader("multiprocess_reader", one)
    capacity = count_of("multiprocess_reader: queue_size", queue_size)

    def in_turns() -> Iterator[Any]:
        passes = deque(Batches(one, capacity) for one in readers)
        try:
            while passes:
                sample = next(passes[0], _NOTHING)
                if sample is _NOTHING:
                    passes.popleft()
                    continue
                passes.rotate(-1)
                yield sample
        finally:
            for left in passes:
                left.close()

    return in_turns


def _next(under_way: deque[Future[Any]], order: bool) -> Future[Any]:
    """The first result, or the first that is ready, taken out of the queue."""
    waited_for = [under_way[0]] if order else list(under_way)
    while not (done := wait(waited_for, PATIENCE_S, FIRST_COMPLETED).done):
        _log.warning("xmap_readers has waited %.0f s for its mapper to return a sample", PATIENCE_S)
    first = under_way[0] if under_way[0] in done else next(iter(done))
    under_way.remove(first)
    return first


def _reader(what: str, value: object) -> None:
    if not callable(value):
        raise UsageTypeError(
            f"{what}: a reader must be a function that gives an iterator, got {type(value).__name__}; "
            "give the function itself, without calling it"
        )
