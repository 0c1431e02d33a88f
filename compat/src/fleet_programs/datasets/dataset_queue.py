"""`QueueDataset`: files are read while the model trains, and nothing is kept."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import Any, NoReturn

from fleet.data.columns.records import BySlot, Cutter, Records, join
from fleet.errors import NotSupportedError
from fleet_programs.datasets.dataset import Dataset
from fleet_programs.datasets.multislot import Format
from fleet_programs.datasets.piped import Stop
from fleet_programs.datasets.readers import Files, Readers


class QueueDataset(Dataset):
    """Batches straight from the files, read by `thread_num` threads a few batches ahead of the loop.

    With one thread the order is that of the files. With more, batches come as they are ready: each holds records of the
    files that one thread has read, in their order; what is left over at the end is put together.
    """

    _feed = "MultiSlotDataFeed"

    def local_shuffle(self) -> NoReturn:
        """Refused: there is nothing in memory to shuffle."""
        raise NotSupportedError("QueueDataset keeps no records to shuffle; use InMemoryDataset, or shuffle the files")

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> NoReturn:  # noqa: ARG002
        """Refused: there is nothing in memory to shuffle."""
        raise NotSupportedError("QueueDataset keeps no records to shuffle; use InMemoryDataset, or shuffle the files")

    def _part(self, worker: int, num_workers: int) -> Iterator[BySlot]:
        paths = self._paths()[worker::num_workers]
        num_threads = min(max(1, self._num_threads // num_workers), len(paths))
        return _read(paths, _Work(self._ready_format(), self._batch_size, num_threads), num_threads)


def _read(paths: list[str], work: _Work, num_threads: int) -> Iterator[BySlot]:
    with Readers(paths, work, num_threads) as readers:
        yield from readers


class _Work:
    """What each thread does: files to records to batches. The last to finish takes what the others have left over."""

    def __init__(self, format: Format, batch_size: int, num_threads: int) -> None:
        self._format = format
        self._batch_size = batch_size
        self._num_running = num_threads
        self._left_over: list[Records] = []
        self._lock = threading.Lock()

    def __call__(self, files: Files, stop: Stop) -> Generator[BySlot, None, None]:
        cutter = Cutter(self._batch_size)
        for _, path in files:
            for piece in self._format.read(path, stop):
                for records in cutter.add(piece):
                    yield records.batch()
        with self._lock:
            self._left_over += cutter.rest
            self._num_running -= 1
            if self._num_running > 0:
                return
        last = Cutter(self._batch_size)
        for piece in self._left_over:
            for records in last.add(piece):
                yield records.batch()
        if last.rest:
            yield join(last.rest).batch()
