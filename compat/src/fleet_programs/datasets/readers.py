"""Threads that read files, one file at a time each, and hand over what they make of them through a bounded queue."""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Generic, TypeVar

from fleet_programs.datasets.piped import Stop, Stopped

T = TypeVar("T")


class Files:
    """The files that no thread has taken yet, by place; threads share it."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._left = iter(enumerate(paths))
        self._lock = threading.Lock()

    def __iter__(self) -> Files:
        return self

    def __next__(self) -> tuple[int, str]:
        with self._lock:
            return next(self._left)


Work = Callable[[Files, Stop], Generator[T, None, None]]
"""What a thread does: take files until there are none, and yield what is to be handed over."""


class Readers(Generic[T]):
    """Iterate inside `with`: what the threads hand over, until all have ended or one has raised.

    Leaving the context early stops them: commands are killed and threads joined before it returns. So does the end of
    the interpreter, which a thread inside the parser would not survive.
    """

    def __init__(self, paths: Sequence[str], work: Work[T], num_threads: int) -> None:
        self._files = Files(paths)
        self._work = work
        self._num_running = num_threads
        self._capacity = 2 * num_threads
        self._ready: deque[T] = deque()
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, name=f"fleet-reader-{number}", daemon=True)
            for number in range(num_threads)
        ]

    def __enter__(self) -> Readers[T]:
        self._stop = Stop()
        atexit.register(self.close)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads; who still iterates gets Stopped."""
        with self._changed:
            if self._stop.is_set:
                return
            self._stop.set()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._stop.close()
        atexit.unregister(self.close)

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                # Every reader has deadlines of its own and tells how it ended, so this wait ends as well.
                self._changed.wait_for(lambda: self._ready or self._error is not None or self._num_running == 0)
                if self._error is not None:
                    raise self._error
                if self._stop.is_set:
                    raise Stopped
                if not self._ready:
                    return
                item = self._ready.popleft()
                self._changed.notify_all()
            yield item

    def _run(self) -> None:
        try:
            with closing(self._work(self._files, self._stop)) as items:
                for item in items:
                    self._hand_over(item)
        except Stopped:
            pass
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
        finally:
            with self._changed:
                self._num_running -= 1
                self._changed.notify_all()

    def _hand_over(self, item: T) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) < self._capacity or self._stop.is_set)
            if self._stop.is_set:
                raise Stopped
            self._ready.append(item)
            self._changed.notify_all()
