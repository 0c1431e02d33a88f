"""The dense parameters of one optimizer group on one server: a flat buffer and its rule, in host memory or on a GPU."""

from collections.abc import Mapping, Sequence
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

    def apply(self, grads: NDArray[np.float32], lr: float, absent: Sequence[int] = ()) -> None:
        """One update; the `absent` parts, ascending, stay as they are."""

    def read(self) -> NDArray[np.float32]:
        """The values of this moment, read only: what comes later does not change them."""

    def state(self) -> NDArray[np.float32]:
        """A copy of the rule's state: arrays of `size` one after the other, then scalars.

        All parts share their scalars; once a part was absent from an update, each part has its own.
        """

    def restore(self, values: NDArray[np.float32], state: NDArray[np.float32]) -> None:
        """Go back to saved values and state."""


class HostGroup(DenseGroup):
    """One of the groups in host memory, changed by native rules."""

    def __init__(self, dense: _native.Dense, index: int, size: int) -> None:
        self.size = size
        self._dense = dense
        self._index = index

    def start(self, values: NDArray[np.float32]) -> None:
        self._dense.start(self._index, np.ascontiguousarray(values, np.float32))

    def apply(self, grads: NDArray[np.float32], lr: float, absent: Sequence[int] = ()) -> None:
        self._dense.apply([(self._index, lr, [grads], absent)], 1, False)

    def read(self) -> NDArray[np.float32]:
        return self._dense.read()[self._index]

    def state(self) -> NDArray[np.float32]:
        return self._dense.snapshot()[self._index][1]

    def restore(self, values: NDArray[np.float32], state: NDArray[np.float32]) -> None:
        if not self.size:  # a checkpoint has nothing of a group without blocks on this server, not even scalars
            self.start(values)
            return
        self._dense.restore(
            self._index, np.ascontiguousarray(values, np.float32), np.ascontiguousarray(state, np.float32)
        )


def host_dense(groups: Sequence[tuple[str, Mapping[str, float], Sequence[int]]]) -> _native.Dense:
    """Groups in host memory, given as rule, its arguments and the sizes of its parts, the blocks of parameters."""
    try:
        return _native.Dense([(rule, dict(args), list(parts)) for rule, args, parts in groups])
    except ValueError as error:
        raise UsageError(f"dense parameters: {error}") from None


def dense_group(rule: str, args: Mapping[str, float], parts: Sequence[int], device: str) -> DenseGroup:
    """A group by itself on a device, `cpu` or `cuda`, given the sizes of its parts."""
    if device == "cpu":
        return HostGroup(host_dense([(rule, args, parts)]), 0, sum(parts))
    from fleet.ps.held.dense_cuda import DeviceGroup

    return DeviceGroup(rule, args, parts, device)
