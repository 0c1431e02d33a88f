"""A job whose workers are threads, for readers: they can gather values, and notes are taken of their joins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
# A worker that waits longer for the others is alone.
PATIENCE_S = 60.0


class ThreadJob:
    """What fleet.data uses of a Fleet; `util` is the job itself."""

    progress = None

    def __init__(self, num_workers: int, is_collective: bool = False) -> None:
        self._num = num_workers
        self._is_collective = is_collective
        self._here = threading.local()
        self._meeting = threading.Barrier(num_workers)
        self._values: list[Any] = [None] * num_workers
        self.joins: list[list[str]] = [[] for _ in range(num_workers)]
        self.num_gathers = 0

    def run(self, work: Callable[[int], T]) -> list[T]:
        """Let every worker work as one that fleet.data sees; the first error is raised when all have ended."""

        def as_worker(index: int) -> T:
            self._here.index = index
            try:
                return work(index)
            except BaseException:
                self._meeting.abort()
                raise

        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(self._num) as pool:
            patch.setattr("fleet.data.sharding.fleet", self)
            patch.setattr("fleet.data.reading.from_files.fleet", self)
            futures = [pool.submit(as_worker, index) for index in range(self._num)]
            wait(futures)
        errors = [error for future in futures if (error := future.exception()) is not None]
        errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
        if errors:
            raise errors[0]
        return [future.result() for future in futures]

    @property
    def util(self) -> ThreadJob:
        return self

    @property
    def passing(self) -> None:
        return None

    def gather_at(self, topic: str, input: Any) -> list[Any]:
        told = self.all_gather([topic, input])
        assert {name for name, _ in told} == {topic}
        return [value for _, value in told]

    def all_gather(self, input: Any) -> list[Any]:
        self._values[self.worker_index()] = input
        self._meeting.wait(PATIENCE_S)
        told = list(self._values)
        self._meeting.wait(PATIENCE_S)
        self.num_gathers += self.worker_index() == 0
        return told

    def worker_index(self) -> int:
        return int(self._here.index)

    def worker_num(self) -> int:
        return self._num

    def is_server(self) -> bool:
        return False

    def is_collective(self) -> bool:
        return self._is_collective

    @contextmanager
    def join(self) -> Iterator[None]:
        notes = self.joins[self.worker_index()]
        notes.append("entered")
        try:
            yield
        except BaseException as error:
            notes.append(type(error).__name__)
            raise
        notes.append("left")
