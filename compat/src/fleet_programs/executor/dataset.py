"""`train_from_dataset`: a program over the batches of a dataset, in one thread or several that share parameters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_programs.program.variable import Variable

Batch = Mapping[str, Any]
Run = Callable[[Batch, Sequence[Variable | str]], list[Any]]

STOP_S = 30.0
"""How long a handler, or a batch that is being computed, may take to end when training does."""

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


class FetchHandler:
    """Gets the newest values of some variables every `period_secs`, in a thread of its own; override `handler`.

    `var_dict` maps names of your own to variables. A list of the variables' names will do, as in the first versions:
    then `handler` is called with a list.
    """

    def __init__(
        self,
        var_dict: Mapping[str, Variable] | Sequence[str] | None = None,
        period_secs: float = 60,
        return_np: bool = True,
        *,
        fetch_target_names: Sequence[str] | None = None,
    ) -> None:
        given = fetch_target_names if var_dict is None else var_dict
        if isinstance(given, Sequence) and not isinstance(given, str):
            targets: dict[str, Variable | str] = {name: name for name in given}
        elif isinstance(given, Mapping) and all(isinstance(var, Variable) for var in given.values()):
            targets = dict(given)
        else:
            raise UsageTypeError("FetchHandler: var_dict must map names to variables of the program")
        if not period_secs > 0:
            raise UsageError(f"FetchHandler: period_secs must be > 0, got {period_secs}")
        if not return_np:
            raise NotSupportedError("FetchHandler: return_np must be True; a handler gets numpy arrays")
        self.var_dict = targets
        self.period_secs = period_secs
        self._gets_list = not isinstance(given, Mapping)

    def handler(self, fetch_dict: Any) -> None:
        """Called with {name: array}, or with a list of arrays; this one prints them."""
        shown = zip(self.var_dict, fetch_dict, strict=True) if isinstance(fetch_dict, list) else fetch_dict.items()
        print(", ".join(f"{name}: {value}" for name, value in shown), flush=True)

    def call(self, newest: dict[str, Any]) -> None:
        """Call `handler` in the form that it was made for."""
        self.handler(list(newest.values()) if self._gets_list else newest)


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
            self._handler.call(self._newest)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._is_over.wait(self._handler.period_secs):
                newest, self._newest = self._newest, None
                if newest is not None:
                    self._handler.call(newest)
        except Exception as error:
            self._error = error


def run_over(
    batches: Iterable[Batch],
    run: Run,
    *,
    num_threads: int,
    fetch_list: Sequence[Variable | str],
    fetch_info: Sequence[str],
    print_period: int,
    handler: FetchHandler | None,
) -> int:
    """Run over all batches; how many there were. The first error of a thread ends all, and is raised."""
    printed = _Printed(fetch_list, fetch_info, print_period)
    one = _Pass(_begun(batches), run, printed, handler)
    threads = [threading.Thread(target=one.guarded, name=f"fleet-train-{i}", daemon=True) for i in range(num_threads)]
    try:
        if num_threads <= 1:
            one.work()
        else:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    except BaseException as error:
        one.errors.append(error)  # the threads look at it before each batch
    for thread in threads:
        if thread.ident is not None:
            thread.join(STOP_S)
    one.finish(is_read=any(thread.is_alive() for thread in threads))
    if one.errors:
        raise one.errors[0]
    return one.count


def _begun(batches: Any) -> Iterator[Batch]:
    if not hasattr(batches, "__iter__"):
        raise UsageTypeError(
            f"dataset must be an InMemoryDataset, a QueueDataset or feeds to go through, got {batches!r}"
        )
    return iter(batches)


class _Printed(NamedTuple):
    """What is printed, and every how many batches."""

    fetches: Sequence[Variable | str]
    names: Sequence[str]
    period: int


def _short(value: Any) -> str:
    """A number of one element, or whatever there is."""
    return f"{value.item():.4f}" if getattr(value, "size", 0) == 1 and value.dtype.kind == "f" else str(value)


class _Pass:
    """One pass over the batches, by as many threads as call `work`."""

    def __init__(self, source: Iterator[Batch], run: Run, printed: _Printed, handler: FetchHandler | None) -> None:
        self.count = 0
        self.errors: list[BaseException] = []
        self._source = source
        self._lock = threading.Lock()
        self._run = run
        self._printed = printed
        self._watch = None if handler is None else _Watch(handler)
        self._watched = [] if handler is None else list(handler.var_dict.values())

    def guarded(self) -> None:
        """`work` that keeps its error."""
        try:
            self.work()
        except BaseException as error:
            self.errors.append(error)

    def work(self) -> None:
        """Run until there is no batch left, or something went wrong somewhere."""
        while not self.errors and (taken := self._take()) is not None:
            number, batch = taken
            is_shown = bool(self._printed.fetches) and number % self._printed.period == 0
            values = self._run(batch, [*(self._printed.fetches if is_shown else ()), *self._watched])
            if is_shown:
                shown = zip(self._printed.names, values, strict=False)
                print(f"batch {number}: " + ", ".join(f"{name} {_short(value)}" for name, value in shown), flush=True)
            if self._watch is not None:
                self._watch.update(values[len(values) - len(self._watched) :])

    def _take(self) -> tuple[int, Batch] | None:
        with self._lock:
            batch = next(self._source, None)
            if batch is None:
                return None
            self.count += 1
            return self.count, batch

    def finish(self, *, is_read: bool) -> None:
        """Let the batches go, unless a thread that did not end still reads them, and the handler."""
        close = getattr(self._source, "close", None)  # a generator may hold threads
        if close is not None and not is_read:
            close()
        if self._watch is not None:
            try:
                self._watch.stop()
            except Exception as error:
                self.errors.append(error)
