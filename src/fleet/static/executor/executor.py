"""The Executor: runs programs, each compiled once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet.static.executor.compile import compile_block
from fleet.static.executor.dataset import FetchHandler, run_over
from fleet.static.executor.emit import Step
from fleet.static.executor.feed import Feeder
from fleet.static.executor.lod import LoDTensor
from fleet.static.executor.place import CPUPlace, device_of
from fleet.static.executor.scope import Scope, global_scope
from fleet.static.program import Program, default_main_program
from fleet.static.variable import Variable

MAX_STEPS = 64
"""Compiled programs that an Executor keeps; the one compiled first goes first."""


class Executor:
    """Runs programs on one device.

    A program is compiled when it is run for the first time with some feeds and fetches, and again only after it has
    changed; `source(...)` shows what became of it.
    """

    def __init__(self, place: object = None) -> None:
        self.place = CPUPlace() if place is None else place
        self.device = device_of(self.place)
        self._steps: dict[tuple[Any, ...], _Ready] = {}
        self._is_closed = False

    def run(
        self,
        program: Any = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Variable | str] | Variable | str | None = None,
        scope: Scope | None = None,
        return_numpy: bool = True,
    ) -> list[Any]:
        """Run a program once; the values of `fetch_list`, as numpy arrays or, without `return_numpy`, as tensors.

        Without a program it is the default main program. A ragged variable is fed as a LoDTensor, and comes back as one
        without `return_numpy`. Without a feed the readers of the program that were started give it.
        """
        if self._is_closed:
            raise NotReadyError("this Executor is closed; make another")
        program = default_main_program() if program is None else program
        feed = _read(program) if feed is None else feed
        scope = global_scope() if scope is None else scope
        ready = self._ready(program, feed, fetch_list, scope)
        values = ready.feeder.tensors(feed)
        try:
            results = ready.step.function(scope.tensors, values)
        except KeyError as error:
            raise _not_initialised(error, ready.step) from None
        return ready.arrays(results) if return_numpy else ready.tensors(results)

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
        if thread > 1 and "servers" in getattr(program, "program", program).notes:
            raise NotSupportedError(
                f"train_from_dataset: thread={thread} beside servers is not built; start more workers instead: "
                "fleetrun --worker_num"
            )
        if print_period < 1:
            raise UsageError(f"print_period must be >= 1, got {print_period}")
        wanted = (
            [] if fetch_list is None else [fetch_list] if isinstance(fetch_list, Variable | str) else list(fetch_list)
        )
        names = _fetches(wanted)
        if fetch_info is not None and len(fetch_info) != len(names):
            raise UsageError(
                f"fetch_info must have one text for each of fetch_list, got {len(fetch_info)} for {len(names)}"
            )
        begun = time.perf_counter()
        count = run_over(
            dataset,
            lambda batch, fetches: self.run(program, batch, fetches, scope),
            num_threads=thread,
            fetch_list=wanted,
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
        return self._ready(program, feed or {}, fetch_list, global_scope()).step.source

    def close(self) -> None:
        """Let compiled programs go, and take leave of the servers of those that had some."""
        scopes = {id(ready.scope): ready.scope for ready in self._steps.values()}
        self._steps.clear()
        self._is_closed = True
        for scope in scopes.values():
            for attached in scope.attached.values():
                if (stop := getattr(attached, "stop", None)) is not None:
                    stop()

    def _ready(self, program: Any, feed: Mapping[str, Any], fetch_list: Any, scope: Scope) -> _Ready:
        try:
            key = (program.serial, program.version, tuple(feed), _fetch_key(fetch_list), id(scope), id(program))
            ready = self._steps.get(key)
        except (AttributeError, TypeError):
            raise _wrong_arguments(program, feed, fetch_list) from None
        if ready is None:
            ready = self._compile(program, feed, fetch_list, scope)
            while len(self._steps) >= MAX_STEPS:
                self._steps.pop(next(iter(self._steps)))
            self._steps[key] = ready
        return ready

    def _compile(self, program: Any, feed: Mapping[str, Any], fetch_list: Any, scope: Scope) -> _Ready:
        if not isinstance(feed, Mapping):
            raise UsageTypeError(f"feed must be a dictionary of names and values, got {type(feed).__name__}")
        build = getattr(program, "build_strategy", None)
        block = getattr(program, "program", program).global_block()
        fetches = _fetches(fetch_list)
        for name in fetches:
            block.var(name)
        feeder = Feeder(block, tuple(feed), self.device)
        lods = [block.var(name).lod for name in fetches]
        ragged = [name for name in dict.fromkeys(lods) if name is not None]
        step = compile_block(block, feeder.names, [*fetches, *ragged], self.device, scope, build)
        places = [None if lod is None else len(fetches) + ragged.index(lod) for lod in lods]
        lasting = [index for index, name in enumerate(fetches) if block.var(name).persistable]
        return _Ready(step, feeder, places, lasting, program, scope)


class _Ready:
    """A compiled program, what brings its feeds, where the offsets of ragged results are, and which results last."""

    def __init__(
        self,
        step: Step,
        feeder: Feeder,
        lods: list[int | None],
        lasting: list[int],
        program: Any,
        scope: Scope,
    ) -> None:
        self.step = step
        self.feeder = feeder
        self.lods = lods
        self._lasting = lasting
        self.scope = scope
        self._program = program  # as of the scope, its id is in the key: it must not be given to another

    def arrays(self, results: Sequence[Any]) -> list[Any]:
        arrays = [_array(result) for result in results[: len(self.lods)]]
        for index in self._lasting:
            arrays[index] = arrays[index].copy()  # the next run changes a parameter where it is
        return arrays

    def tensors(self, results: Sequence[Any]) -> list[Any]:
        found: list[Any] = [
            result if place is None else LoDTensor(result, results[place])
            for result, place in zip(results, self.lods, strict=False)
        ]
        for index in self._lasting:
            found[index] = found[index].clone()
        return found


def _read(program: Any) -> dict[str, Any]:
    """What the started readers of a program give next; nothing for a program without."""
    readers = getattr(getattr(program, "program", program), "readers", ())
    feed: dict[str, Any] = {}
    for reader in readers:
        if reader.is_started:
            feed.update(reader.read())
    return feed


def _wrong_arguments(program: Any, feed: Any, fetch_list: Any) -> UsageTypeError:
    if not isinstance(program, Program) and not hasattr(program, "program"):
        return UsageTypeError(f"program must be a Program or a CompiledProgram, got {type(program).__name__}")
    if not isinstance(feed, Mapping):
        return UsageTypeError(f"feed must be a dictionary of names and values, got {type(feed).__name__}")
    return UsageTypeError(f"fetch_list must hold variables or their names, got {fetch_list!r}")


def _fetch_key(fetch_list: Any) -> Any:
    if fetch_list is None:
        return None
    if isinstance(fetch_list, Variable | str):
        return fetch_list
    return tuple(one if isinstance(one, str) else getattr(one, "name", one) for one in fetch_list)


def _fetches(fetch_list: Any) -> list[str]:
    several = [] if fetch_list is None else [fetch_list] if isinstance(fetch_list, Variable | str) else list(fetch_list)
    for one in several:
        if not isinstance(one, Variable | str):
            raise UsageTypeError(f"fetch_list must hold variables or their names, got {type(one).__name__}")
    return [one if isinstance(one, str) else one.name for one in several]


def _not_initialised(error: KeyError, step: Step) -> Exception:
    name = error.args[0] if error.args else None
    if name in step.reads:
        return NotReadyError(
            f"variable {name!r} has no value; run the startup program first: exe.run(default_startup_program())"
        )
    return error


def _array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dtype is torch.bfloat16:
            value = value.float()  # numpy has no bfloat16
        return value.detach().cpu().numpy() if value.device.type != "cpu" else value.numpy()
    return np.asarray(value)
