"""Scopes: the tensors behind a program's persistable variables, by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs.executor.lod import as_array
from fleet_programs.remote import RemoteWorker

_serial = itertools.count()


class ScopeVariable:
    """A variable in a scope, as `scope.find_var(name)` gives it."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self.name = name

    def get_tensor(self) -> ScopeTensor:
        """What reads and writes its value."""
        return ScopeTensor(self._scope, self.name)


class ScopeTensor:
    """The tensor of a variable: `numpy.array(it)` reads, `set` writes."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._name = name

    @property
    def tensor(self) -> torch.Tensor:
        """The value itself, not a copy; NotReadyError if there is none."""
        found = self._scope.tensors.get(self._name)
        if found is None:
            raise NotReadyError(
                f"variable {self._name!r} has no value in this scope; run the startup program, or set() one first"
            )
        return found

    def set(self, value: Any, place: object = None) -> None:
        """Replace the value by a copy of `value`, which goes to `place`, or to where the variable is.

        A variable that has a value keeps its shape and dtype: UsageError for others, except for smaller whole numbers.
        """
        from fleet_programs.executor.place import device_of

        known = self._scope.tensors.get(self._name)
        tensor = value.detach() if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
        if known is None:
            device = tensor.device if place is None else device_of(place)
            self._scope.tensors[self._name] = tensor.to(device, copy=True)
            return
        if _is_whole(known.dtype) and _is_whole(tensor.dtype) and tensor.element_size() < known.element_size():
            tensor = tensor.to(known.dtype)  # nothing is lost
        if known.shape != tensor.shape or known.dtype != tensor.dtype:
            raise UsageError(
                f"variable {self._name!r} is {_form(known)}, got {_form(tensor)}; reshape or convert what you set, or "
                "use a Scope of its own"
            )
        if place is not None and known.device != device_of(place):
            self._scope.tensors[self._name] = tensor.to(device_of(place), copy=True)
        else:
            known.copy_(tensor)  # others may hold views of it

    def shape(self) -> list[int]:
        """The shape of the value; NotReadyError if there is none."""
        return list(self.tensor.shape)

    _get_dims = shape

    def _is_initialized(self) -> bool:
        return self._name in self._scope.tensors

    def _get_float_element(self, index: int) -> float:
        return float(self.tensor.reshape(-1)[index])

    _get_double_element = _get_float_element

    def _set_float_element(self, index: int, value: float) -> None:
        self.tensor.detach().view(-1)[index] = value

    _set_double_element = _set_float_element

    def lod(self) -> list[list[int]]:
        """What a scope keeps from run to run is never ragged."""
        return []

    recursive_sequence_lengths = lod

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return as_array(self.tensor, dtype, copy)


def _is_whole(dtype: torch.dtype) -> bool:
    return dtype in (torch.int8, torch.int16, torch.int32, torch.int64)


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


class Scope:
    """Tensors by name. `tensors` is the dictionary that compiled programs read and write."""

    def __init__(self) -> None:
        self.serial = next(_serial)
        """Different for every scope of this process: caches use it."""
        self.tensors: dict[str, torch.Tensor] = {}
        self.trainer: RemoteWorker | None = None
        """The worker that keeps these tensors together with servers, once a program has one."""
        self.model_dir: str | None = None
        """The checkpoint that a server's program begins to serve with."""
        self.generators: dict[tuple[int, int, str], torch.Generator] = {}
        """Random numbers of a program (by its serial), with a seed, on a device."""
        self.prints: dict[tuple[int, str], Iterator[int]] = {}
        """How often a program (by its serial) has printed for a variable."""

    def var(self, name: str) -> ScopeVariable:
        """A variable, which gets a value with `get_tensor().set(...)`."""
        return ScopeVariable(self, name)

    def find_var(self, name: str) -> ScopeVariable | None:
        """A variable, or None if it has no value."""
        return ScopeVariable(self, name) if name in self.tensors else None

    def drop_kids(self) -> None:
        """Temporaries never live in a scope, so there is nothing to drop."""

    def __contains__(self, name: str) -> bool:
        return name in self.tensors


_scope = Scope()


def global_scope() -> Scope:
    """The scope that an Executor uses if it is not given one."""
    return _scope


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Inside, another scope is the global one."""
    global _scope
    if not isinstance(scope, Scope):
        raise UsageTypeError(f"scope must be a Scope, got {type(scope).__name__}")
    before, _scope = _scope, scope
    try:
        yield
    finally:
        _scope = before
