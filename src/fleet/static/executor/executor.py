"""The Executor: runs programs, each compiled once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet.static.executor.dataset import FetchHandler, run_over
from fleet.static.executor.faults import explained
from fleet.static.executor.place import CPUPlace, device_of
from fleet.static.executor.scope import TRAINER, Scope, global_scope
from fleet.static.executor.steps import Steps, fetch_names
from fleet.static.program import SERVERS_NOTE, default_main_program
from fleet.static.variable import Variable


class Executor:
    """Runs programs on one device.

    A program is compiled when it is run for the first time with some feeds and fetches, and again only after it has
    changed; `source(...)` shows what became of it.
    """

    def __init__(self, place: object = None) -> None:
        self.place = CPUPlace() if place is None else place
        self.device = device_of(self.place)
        self._steps = Steps(self.device)
        self._is_closed = False

    def run(
        self,
        program: Any = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Variable | str] | Variable | str | None = None,
        scope: Scope | None = None,
        return_numpy: bool = True,
        *,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        use_program_cache: bool = True,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run a program once; the values of `fetch_list`, as numpy arrays or, without `return_numpy`, as tensors.

        Without a program it is the default main program. A ragged variable is fed as a LoDTensor, and comes back as one
        without `return_numpy`. Without a feed the readers of the program that were started give it. The arguments after
        `return_numpy` are Fluid's and change nothing here: every program is cached, and run as far as it is needed.
        """
        del feed_var_name, fetch_var_name, use_program_cache, return_merged, use_prune
        if self._is_closed:
            raise NotReadyError("this Executor is closed; make another")
        program = default_main_program() if program is None else program
        feed = _read(program) if feed is None else feed
        scope = global_scope() if scope is None else scope
        ready = self._steps.get(program, feed, fetch_list, scope)
        values = ready.feeder.tensors(feed)
        try:
            results = ready.step.function(scope.tensors, values)
        except Exception as error:
            found = explained(error, ready.step)
            if found is error:
                raise
            raise found from error
        return ready.arrays(results, values) if return_numpy else ready.tensors(results, values)

    def train_from_dataset(
        self,
        program: Any = None,
        dataset: Any = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Variable | str] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> int:
        """Run a program over every batch of a dataset; returns how many there were.

        With `thread` above 1 so many threads run it at once and share the parameters without locks. `fetch_list` is
        printed every `print_period` batches, under the names of `fetch_info`; `debug` prints the time that all took.
        """
        if dataset is None:
            raise UsageError("train_from_dataset: give dataset=, a fleet.data.InMemoryDataset or QueueDataset")
        program = default_main_program() if program is None else program
        _check_threads(thread)
        has_servers = SERVERS_NOTE in getattr(program, "program", program).notes
        if thread > 1 and (has_servers or TRAINER in (scope or global_scope()).attached):
            raise NotSupportedError(
                f"train_from_dataset: thread={thread} beside servers is not built; start more workers instead: "
                "fleetrun --worker_num"
            )
        if print_period < 1:
            raise UsageError(f"print_period must be >= 1, got {print_period}")
        names = fetch_names(fetch_list)
        for name in names:
            getattr(program, "program", program).global_block().var(name)
        if fetch_info is not None and len(fetch_info) != len(names):
            raise UsageError(
                f"fetch_info must have one text for each of fetch_list, got {len(fetch_info)} for {len(names)}"
            )
        begun = time.perf_counter()
        count = run_over(
            dataset,
            lambda batch, fetches: self.run(program, batch, fetches, scope=scope),
            num_threads=thread,
            fetch_list=names,
            fetch_info=list(fetch_info or names),
            print_period=print_period,
            handler=fetch_handler,
        )
        if debug:
            print(f"{count} batches in {time.perf_counter() - begun:.3f} s", flush=True)
        return count

    def infer_from_dataset(self, program: Any = None, *args: Any, **more: Any) -> int:
        """`train_from_dataset` with a program that trains nothing; UsageError if it would."""
        program = default_main_program() if program is None else program
        if getattr(program, "program", program).is_trained:
            raise UsageError("infer_from_dataset: this program trains; give program.clone(for_test=True)")
        return self.train_from_dataset(program, *args, **more)

    def source(self, program: Any = None, feed: Mapping[str, Any] | None = None, fetch_list: Any = None) -> str:
        """The Python function that a program becomes, as text."""
        program = default_main_program() if program is None else program
        return self._steps.get(program, feed or {}, fetch_list, global_scope()).step.source

    def close(self) -> None:
        """Let compiled programs go, and take leave of the servers of those that had some."""
        scopes = self._steps.clear()
        self._is_closed = True
        for scope in scopes:
            for attached in list(scope.attached.values()):
                if (stop := getattr(attached, "stop", None)) is not None:
                    stop()


def _check_threads(thread: Any) -> None:
    if not isinstance(thread, int) or thread < 0:
        raise UsageError(f"train_from_dataset: thread must be a whole number from 0, got {thread!r}")


def _read(program: Any) -> dict[str, Any]:
    """What the started readers of a program give next; nothing for a program without."""
    readers = getattr(getattr(program, "program", program), "readers", ())
    feed: dict[str, Any] = {}
    for reader in readers:
        if reader.is_started:
            feed.update(reader.read())
    return feed
