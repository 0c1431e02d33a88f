"""`train_from_dataset`: a program over the batches of a dataset, in one thread or several that share parameters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet.static.variable import Variable

Batch = Mapping[str, Any]

STOP_S = 30.0
"""How long a handler, or a batch that is being computed, may take to end when training does."""

_log = logging.getLogger(__name__)


class FetchHandler:
    """Gets the newest values of some variables every `period_secs`, in a thread of its own; override `handler`."""

    def __init__(self, var_dict: Mapping[str, Variable] | None = None, period_secs: float = 60) -> None:
        if var_dict is None or not all(isinstance(var, Variable) for var in var_dict.values()):
            raise UsageTypeError("FetchHandler: var_dict must map names to variables of the program")
        if not period_secs > 0:
            raise UsageError(f"FetchHandler: period_secs must be > 0, got {period_secs}")
        self.var_dict = dict(var_dict)
        self.period_secs = period_secs

    def handler(self, fetch_dict: Mapping[str, Any]) -> None:
        """Called with {name: array}; this one prints them."""
        print(", ".join(f"{name}: {value}" for name, value in fetch_dict.items()), flush=True)


class _Watch:
    """Calls a handler now and then with what the last batch gave."""

    def __init__(self, handler: FetchHandler) -> None:
        self._handler = handler
        self._newest: dict[str, Any] | None = None
        self._error: Exception | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet-fetch", daemon=True)
        self._thread.start()

    def update(self, values: Sequence[Any]) -> None:
        self._newest = dict(zip(self._handler.var_dict, values, strict=True))

    def stop(self) -> None:
        """End the thread, hand over the last values, and raise what the handler raised."""
        self._is_over.set()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            _log.warning("FetchHandler.handler still runs %g s after the last batch; it is left alone", STOP_S)
        elif self._error is None and self._newest is not None:
            self._handler.handler(self._newest)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._is_over.wait(self._handler.period_secs):
                newest, self._newest = self._newest, None
                if newest is not None:
                    self._handler.handler(newest)
        except Exception as error:
            self._error = error


def run_over(
    batches: Iterable[Batch],
    run: Callable[[Batch, Sequence[Variable | str]], list[Any]],
    *,
    num_threads: int,
    fetch_list: Sequence[Variable | str],
    fetch_info: Sequence[str],
    print_period: int,
    handler: FetchHandler | None,
) -> int:
    """Run over all batches; how many there were. The first error of a thread ends all, and is raised."""
    watch = None if handler is None else _Watch(handler)
    extra = [] if handler is None else list(handler.var_dict.values())
    source, lock = iter(batches), threading.Lock()
    count = 0
    errors: list[BaseException] = []

    def work() -> None:
        nonlocal count
        while not errors:
            with lock:
                batch = next(source, None)
                if batch is None:
                    return
                count += 1
                number = count
            is_shown = bool(fetch_list) and number % print_period == 0
            wanted = [*(fetch_list if is_shown else ()), *extra]
            values = run(batch, wanted)
            if is_shown:
                shown = zip(fetch_info, values, strict=False)
                print(f"batch {number}: " + ", ".join(f"{name} {value}" for name, value in shown), flush=True)
            if watch is not None:
                watch.update(values[len(values) - len(extra) :])

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, name=f"fleet-train-{i}", daemon=True) for i in range(num_threads)]
    try:
        if num_threads <= 1:
            work()
        else:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    except BaseException as error:
        errors.append(error)  # the threads look at it before each batch
    for thread in threads:
        if thread.ident is not None:
            thread.join(STOP_S)
    close = getattr(source, "close", None)  # a generator may hold threads
    if close is not None and not any(thread.is_alive() for thread in threads):
        close()
    if watch is not None:
        try:
            watch.stop()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return count
