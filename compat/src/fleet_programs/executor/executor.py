"""The Executor: runs programs, each compiled once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_programs.executor.dataset import FetchHandler, run_over
from fleet_programs.executor.faults import explained
from fleet_programs.executor.feeds import joined
from fleet_programs.executor.place import CPUPlace, device_of
from fleet_programs.executor.scope import Scope, global_scope
from fleet_programs.executor.steps import CompiledSteps, fetch_names, plain
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program, default_main_program
from fleet_programs.program.variable import Variable

_SEVERAL = (list, tuple)  # asking for Sequence takes longer, and every run asks


class Executor:
    """Runs programs on one device.

    A program is compiled when it is run for the first time with some feeds and fetches, and again only after it has
    changed; `source(...)` shows what became of it.
    """

    def __init__(self, place: object = None) -> None:
        self.place = CPUPlace() if place is None else place
        self.device = device_of(self.place)
        self._steps = CompiledSteps(self.device)
        self._is_closed = False
        self._evaluated: WeakKeyDictionary[Program, tuple[int, Program]] = WeakKeyDictionary()
        """Of programs that train, their version and what evaluates them."""

    def run(
        self,
        program: Any = None,
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
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
        without `return_numpy`. Without a feed the readers of the program that were started give it; a list of feeds,
        as programs for several places take it, is computed as one of all their rows. With `use_prune` only what leads
        to `fetch_list` runs: nothing is updated or sent, though a metric that is fetched counts, and what is fed is not
        computed. The arguments before it are Fluid's and change nothing here: every program is cached, and run as far
        as it is needed.
        """
        del feed_var_name, fetch_var_name, use_program_cache, return_merged
        if self._is_closed:
            raise NotReadyError("this Executor is closed; make another")
        program = default_main_program() if program is None else program
        feeds: Any = _read(program) if feed is None else _joined(feed, program) if isinstance(feed, _SEVERAL) else feed
        scope = global_scope() if scope is None else scope
        ready = self._steps.get(program, feeds, fetch_list, scope, is_pruned=use_prune)
        values = ready.feeder.tensors(feeds)
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

        With `thread` above 1 so many threads run it at once and share the parameters without locks; with servers,
        where one thread runs it, so many read, as after `dataset.set_thread(thread)`. `fetch_list` is printed every
        `print_period` batches, under the names of `fetch_info`; `debug` prints the time that all took.
        """
        if dataset is None:
            raise UsageError("train_from_dataset: give dataset=, an InMemoryDataset or QueueDataset")
        program = default_main_program() if program is None else program
        _check_threads(thread)
        has_servers = SERVERS_NOTE in plain(program).notes
        if thread > 1 and (has_servers or (scope or global_scope()).trainer is not None):
            if not hasattr(dataset, "set_thread"):
                raise NotSupportedError(
                    f"train_from_dataset: thread={thread} beside servers is the number of threads that read a dataset, "
                    f"and {type(dataset).__name__} is none; start more workers instead: fleetrun --worker_num"
                )
            dataset.set_thread(thread)
            thread = 1
        if print_period < 1:
            raise UsageError(f"print_period must be >= 1, got {print_period}")
        names = fetch_names(fetch_list)
        for name in names:
            plain(program).global_block().var(name)
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
        """`train_from_dataset` that trains nothing: of a program that would, it runs `clone(for_test=True)`."""
        program = plain(default_main_program() if program is None else program)
        if program.is_trained:
            known = self._evaluated.get(program)
            if known is None or known[0] != program.version:
                known = self._evaluated[program] = (program.version, program.clone(for_test=True))
            program = known[1]
        return self.train_from_dataset(program, *args, **more)

    def source(self, program: Any = None, feed: Mapping[str, Any] | None = None, fetch_list: Any = None) -> str:
        """The Python function that a program becomes, as text."""
        program = default_main_program() if program is None else program
        step = self._steps.get(program, feed or {}, fetch_list, global_scope()).step
        return "\n".join([step.source, *(f"# block {n}\n{one.source}" for n, one in enumerate(step.bodies, 1))])

    def close(self) -> None:
        """Let compiled programs go, and take leave of the servers of those that had some."""
        scopes = self._steps.clear()
        self._is_closed = True
        for scope in scopes:
            if scope.trainer is not None:
                scope.trainer.stop()


def _check_threads(thread: Any) -> None:
    if not isinstance(thread, int) or thread < 0:
        raise UsageError(f"train_from_dataset: thread must be a whole number from 0, got {thread!r}")


def _joined(feeds: Any, program: Any) -> dict[str, Any]:
    found = plain(program)
    return joined(feeds, found.global_block().vars if isinstance(found, Program) else {})


def _read(program: Any) -> dict[str, Any]:
    """What the started readers of a program give next; nothing for a program without."""
    feed: dict[str, Any] = {}
    for reader in getattr(plain(program), "readers", ()):
        feed.update(reader.read())
    return feed
