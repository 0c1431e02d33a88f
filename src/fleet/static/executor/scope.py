"""Scopes: the tensors behind a program's persistable variables, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageTypeError


class ScopeVariable:
    """A variable in a scope, as `scope.find_var(name)` gives it."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self.name = name

    def get_tensor(self) -> ScopeTensor:
        return ScopeTensor(self._scope, self.name)


class ScopeTensor:
    """The tensor of a variable: `numpy.array(it)` reads, `set` writes."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._name = name

    @property
    def tensor(self) -> torch.Tensor:
        return self._scope.tensors[self._name]

    def set(self, value: Any, place: object = None) -> None:
        """Replace the value; it stays where it is, or goes to `place`."""
        from fleet.static.executor.place import device_of

        known = self._scope.tensors.get(self._name)
        tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
        if known is not None and known.shape == tensor.shape and known.dtype == tensor.dtype:
            known.copy_(tensor)  # others may hold views of it
        else:
            self._scope.tensors[self._name] = tensor.to(device_of(place)) if place is not None else tensor

    def shape(self) -> list[int]:
        return list(self.tensor.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.tensor.detach().cpu().numpy()
        return np.array(array, dtype=dtype, copy=True if copy is None else copy)


class Scope:
    """Tensors by name. `tensors` is the dictionary that compiled programs read and write."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.attached: dict[str, Any] = {}
        """What runs beside a program and belongs to these tensors, such as a worker that sends them to servers."""

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
