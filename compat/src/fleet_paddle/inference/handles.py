"""What goes into a predictor and comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleet.errors import NotReadyError, UsageError
from fleet_programs.executor.lod import LoDTensor

Offsets = list[list[int]]


class Handle:
    """One input or output, by its name; its array may be ragged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._array: Any = None
        self._offsets: Offsets = []

    def name(self) -> str:
        """Its name."""
        return self._name

    def reshape(self, shape: Sequence[int]) -> None:
        """The shape that is to come; what is there already gets it, if it fits."""
        if self._array is not None and self._array.size == np.prod(shape):
            self._array = self._array.reshape(shape)

    def copy_from_cpu(self, array: Any) -> None:
        """Take an array."""
        self._array = np.array(array)

    def copy_to_cpu(self) -> Any:
        """The array; NotReadyError before there is one."""
        if self._array is None:
            raise NotReadyError(f"{self._name!r} has no value yet; call copy_from_cpu(array) for inputs, then run()")
        return self._array

    def shape(self) -> list[int]:
        """The sizes of the array; none before there is one."""
        return [] if self._array is None else list(self._array.shape)

    def type(self) -> Any:
        """The type of the numbers."""
        return self.copy_to_cpu().dtype

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Where rows begin, and the last one ends, of one level or two."""
        self._offsets = [list(level) for level in lod]

    def lod(self) -> Offsets:
        """What `set_lod` was given, or what came out; empty for a plain array."""
        return self._offsets

    def fed(self) -> Any:
        """What a program is fed."""
        array = self.copy_to_cpu()
        if not self._offsets:
            return array
        ragged = LoDTensor(array)
        ragged.set_lod(self._offsets)
        return ragged

    def take(self, value: Any) -> None:
        """What a program has fetched: a LoDTensor or a tensor."""
        if isinstance(value, LoDTensor):
            self._offsets, value = [list(level) for level in value.lod()], value.values
        self._array = value.numpy(force=True)


class PaddleTensor:
    """An array with a name, as predictors of 1.x take and give them in lists."""

    def __init__(self, data: Any = None, name: str = "") -> None:
        self.name = name
        self.data = None if data is None else np.asarray(data)
        self.lod: Offsets = []

    @property
    def shape(self) -> list[int]:
        """The sizes; they may be set."""
        return list(self.as_ndarray().shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self.data = self.as_ndarray().reshape(shape)

    def as_ndarray(self) -> Any:
        """The array."""
        if self.data is None:
            raise UsageError(f"PaddleTensor {self.name!r} has no data; give it an array")
        return self.data
