"""A thread that does one piece of work every so often, at once when it is asked to, and once more at the end."""

import os
import queue
import threading
from collections.abc import Callable


class Periodic:
    """`work(is_last)` every `every_s` seconds, in a thread of its own; a fork of the process does nothing.

    Nobody waits longer than `patience_s` for it: the work may be writing to a disk that does not answer.
    """

    def __init__(self, name: str, work: Callable[[bool], None], every_s: float, patience_s: float) -> None:
        self._pid = os.getpid()
        self._work, self._every_s, self._patience_s = work, every_s, patience_s
        self._asked: queue.SimpleQueue[threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Do it now; back when that is done."""
        if os.getpid() == self._pid and self._thread.is_alive():
            done = threading.Event()
            self._asked.put(done)
            done.wait(self._patience_s)

    def stop(self) -> None:
        """Do it once more, and end."""
        if os.getpid() == self._pid:
            self._asked.put(None)
            self._thread.join(self._patience_s)

    def _run(self) -> None:
        while True:
            done: threading.Event | None = None
            try:
                done = self._asked.get(timeout=self._every_s)
                is_last = done is None
            except queue.Empty:
                is_last = False
            self._work(is_last)
            if done is not None:
                done.set()
            if is_last:
                return
