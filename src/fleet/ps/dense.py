"""The dense parameters of one optimizer group on one server: a flat buffer and its rule, in host memory or on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import UsageError


class DenseGroup(Protocol):
    """One flat buffer of parameters. The caller sees to it that only one thread uses it at a time."""

    size: int

    def start(self, values: NDArray[np.float32]) -> None:
        """First values; the state of the rule begins anew."""
        ...

    def apply(self, grads: NDArray[np.float32], lr: float) -> None:
        """One update."""
        ...

    def read(self) -> NDArray[np.float32]:
        """A copy of the values."""
        ...

    def state(self) -> NDArray[np.float32]:
        """A copy of the rule's state: arrays of `size` one after the other, then scalars."""
        ...

    def restore(self, values: NDArray[np.float32], state: NDArray[np.float32]) -> None:
        """Go back to saved values and state."""
        ...


class HostGroup(DenseGroup):
    """In host memory, by the native rules."""

    def __init__(self, rule: str, args: Mapping[str, float], size: int) -> None:
        try:
            self._rule = _native.Rule(rule, args)
        except ValueError as error:
            raise UsageError(f"dense parameters: {error}") from None
        self.size = size
        self._values = np.zeros(size, np.float32)
        self._state = self._rule.start(size)

    def start(self, values: NDArray[np.float32]) -> None:
        self._values = np.array(values, np.float32)
        self._state = self._rule.start(self.size)

    def apply(self, grads: NDArray[np.float32], lr: float) -> None:
        self._rule.apply(self._values, self._state, grads, lr)

    def read(self) -> NDArray[np.float32]:
        return self._values.copy()

    def state(self) -> NDArray[np.float32]:
        return self._state.copy()

    def restore(self, values: NDArray[np.float32], state: NDArray[np.float32]) -> None:
        self._values = np.array(values, np.float32)
        # Of a group that has no blocks on this server a checkpoint has nothing, not even the scalars.
        self._state = np.array(state, np.float32) if self.size else self._rule.start(0)


def dense_group(rule: str, args: Mapping[str, float], size: int, device: str) -> DenseGroup:
    """A group on a device, `cpu` or `cuda`."""
    if device == "cpu":
        return HostGroup(rule, args, size)
    from fleet.ps.dense_cuda import DeviceGroup

    return DeviceGroup(rule, args, size, device)
