"""The compiled programs of an Executor: made when they are first needed, kept while they are used."""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.executor.compile import compile_block
from fleet_programs.executor.emit import Step
from fleet_programs.executor.feed import Feeder
from fleet_programs.executor.lod import Fetched, LoDTensor
from fleet_programs.executor.scope import Scope
from fleet_programs.executor.single import as_single
from fleet_programs.kernel.rows import Rows
from fleet_programs.kernel.unset import Unset
from fleet_programs.program.notes import trainers_of
from fleet_programs.program.program import Program
from fleet_programs.program.pruning import leading_to
from fleet_programs.program.variable import Variable

MAX_STEPS = 64
"""Compiled programs that an Executor keeps; the one compiled first goes first."""


class Ready:
    """A compiled program, what brings its feeds, where the offsets of ragged results are, and which results last."""

    def __init__(self, step: Step, feeder: Feeder, lods: list[list[int]], lasting: list[int], scope: Scope) -> None:
        self.step = step
        self.feeder = feeder
        self.scope = scope
        self._lods = lods
        self._lasting = lasting

    def arrays(self, results: Sequence[Any], feeds: Sequence[torch.Tensor]) -> list[Any]:
        """The fetches as numpy arrays that nobody else will change."""
        return [_array(value) for value in self._own(results[: len(self._lods)], feeds)]

    def tensors(self, results: Sequence[Any], feeds: Sequence[torch.Tensor]) -> list[Any]:
        """The fetches as tensors that nobody else will change; ragged ones with their offsets."""
        own = self._own(results, feeds)
        return [
            LoDTensor(value, *(own[place] for place in places)) if places else Fetched.of(value)
            for value, places in zip(own, self._lods, strict=False)  # offsets of ragged ones come last
        ]

    def _own(self, values: Sequence[Any], feeds: Sequence[torch.Tensor]) -> list[Any]:
        """Copies of what the next run, or whoever fed it, may change: persistable variables, and views of feeds."""
        found = list(values)
        if not found:
            return found
        for index in self._lasting:
            found[index] = found[index].clone()
        fed = {feed.untyped_storage().data_ptr() for feed in feeds}
        for index, value in enumerate(found):
            if not isinstance(value, torch.Tensor):
                found[index] = _apart(value, fed)
            elif value.untyped_storage().data_ptr() in fed:  # asked here, as nearly all are such
                found[index] = value.clone()
        return found


def _apart(value: Any, fed: Container[int]) -> Any:
    """A value, or a copy if it is in memory that was fed."""
    if isinstance(value, torch.Tensor):
        return value.clone() if value.untyped_storage().data_ptr() in fed else value
    if isinstance(value, Rows):
        return Rows(_apart(value.index, fed), _apart(value.values, fed), value.height)
    if isinstance(value, list):
        return [_apart(one, fed) for one in value]
    if isinstance(value, Unset):
        raise UsageError(f"{value.name!r} has no value, for no branch that was taken wrote it; assign one before")
    return value


class CompiledSteps:
    """Compiled programs by what they were compiled for. Threads may share it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._ready: dict[tuple[Any, ...], Ready] = {}

    def get(
        self, program: Any, feed: Mapping[str, Any], fetch_list: Any, scope: Scope, *, is_pruned: bool = False
    ) -> Ready:
        """The compiled program for some feeds, fetches and a scope; compiled now if it is not there.

        With `is_pruned` it has only what leads to the fetches.
        """
        try:
            build = program.build_strategy  # a program may be run as it is, and compiled otherwise
            key = (
                program.serial,
                program.version,
                tuple(feed),
                _fetch_key(fetch_list),
                scope.serial,
                scope.trainer,  # looks rows up on servers, once it is there
                None if build is None else build.key,
                is_pruned,
            )
            ready = self._ready.get(key)
        except (AttributeError, TypeError):
            raise _wrong_arguments(program, feed, fetch_list, scope) from None
        return self._make(key, program, feed, fetch_list, scope) if ready is None else ready

    def _make(
        self, key: tuple[Any, ...], program: Any, feed: Mapping[str, Any], fetch_list: Any, scope: Scope
    ) -> Ready:
        with self._lock:
            ready = self._ready.get(key)
            if ready is None:
                ready = _compiled(program, feed, fetch_list, scope, self._device, is_pruned=key[-1])
                # Nothing else changes the dictionary, so that looking into it needs no lock.
                kept = [other for other in self._ready if other[0] != key[0] or other[1] == key[1]][1 - MAX_STEPS :]
                self._ready = {**{other: self._ready[other] for other in kept}, key: ready}
            return ready

    def clear(self) -> list[Scope]:
        """Let all go; the scopes that they were compiled for."""
        with self._lock:
            scopes = {id(ready.scope): ready.scope for ready in self._ready.values()}
            self._ready = {}
        return list(scopes.values())

    def values(self) -> list[Ready]:
        """All that are kept."""
        return list(self._ready.values())

    def __len__(self) -> int:
        return len(self._ready)


def plain(program: Any) -> Any:
    """The program that a CompiledProgram stands for; anything else as it is."""
    return getattr(program, "program", program)


def fetch_names(fetch_list: Any) -> list[str]:
    """The names of what is to be fetched; UsageTypeError for what is no variable."""
    several = [] if fetch_list is None else [fetch_list] if isinstance(fetch_list, Variable | str) else list(fetch_list)
    for one in several:
        if not isinstance(one, Variable | str):
            raise UsageTypeError(f"fetch_list must hold variables or their names, got {type(one).__name__}")
    return [one if isinstance(one, str) else one.name for one in several]


def _compiled(
    program: Any, feed: Mapping[str, Any], fetch_list: Any, scope: Scope, device: torch.device, *, is_pruned: bool
) -> Ready:
    if not isinstance(feed, Mapping):
        raise UsageTypeError(f"feed must be a dictionary of names and values, got {type(feed).__name__}")
    build = getattr(program, "build_strategy", None)
    if build is not None:
        build.check(max(build.num_trainers, trainers_of(plain(program).notes)[0]))
    block = plain(program).global_block()
    fetches = fetch_names(fetch_list)
    if is_pruned:
        block = leading_to(plain(program), fetches, feed).global_block()
    lods = [block.levels_of(block.var(name)) for name in fetches]
    ragged = list(dict.fromkeys(level for levels in lods for level in levels))
    feeder = Feeder(block, tuple(feed), device)
    step = compile_block(block, feeder.names, [*fetches, *ragged], device, scope, build)
    places = [[len(fetches) + ragged.index(level) for level in levels] for levels in lods]
    lasting = [index for index, name in enumerate(fetches) if block.var(name).persistable]
    return Ready(step, feeder, places, lasting, scope)


def _fetch_key(fetch_list: Any) -> tuple[Any, ...]:
    if fetch_list is None:
        return ()
    if isinstance(fetch_list, str):
        return (fetch_list,)
    if isinstance(fetch_list, Variable):
        return (fetch_list.name,)
    return tuple([one if isinstance(one, str) else one.name for one in fetch_list])


def _wrong_arguments(program: Any, feed: Any, fetch_list: Any, scope: Any) -> UsageTypeError:
    if not isinstance(program, Program) and not hasattr(program, "program"):
        return UsageTypeError(f"program must be a Program or a CompiledProgram, got {type(program).__name__}")
    if not isinstance(feed, Mapping):
        return UsageTypeError(f"feed must be a dictionary of names and values, got {type(feed).__name__}")
    if not isinstance(scope, Scope):
        return UsageTypeError(f"scope must be a Scope, got {type(scope).__name__}")
    return UsageTypeError(f"fetch_list must hold variables or their names, got {fetch_list!r}")


def _array(value: Any) -> Any:
    if isinstance(value, list):  # an array of tensors
        return [None if one is None else _array(one) for one in value]
    if isinstance(value, Rows):
        value = value.to_dense()
    if isinstance(value, torch.Tensor):
        if value.dtype is torch.bfloat16:
            value = value.float()  # numpy has no bfloat16
        return as_single(value.cpu().numpy() if value.device.type != "cpu" else value.numpy())
    return np.asarray(value)
