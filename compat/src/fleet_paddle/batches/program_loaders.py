"""Loaders for programs that give batches as PaddlePaddle does: a list with one feed for each place, of LoDTensors."""

from __future__ import annotations

from typing import Any

from fleet_programs.executor.lod import LoDTensor, shared
from fleet_programs.feeding import reader

__all__ = ["GeneratorLoader", "PyReader"]


class GeneratorLoader(reader.GeneratorLoader):
    """Batches of a generator: `[{name: LoDTensor}]`, which `exe.run(feed=batch)` takes; with `return_list` the values.

    A process has one place, so there is one feed.
    """

    def _given(self, batch: Any) -> Any:
        if self._gives_list or not self.iterable:
            return super()._given(batch)
        return [{name: _tensor(value) for name, value in batch.items()}]


class PyReader(GeneratorLoader):
    """A GeneratorLoader under its first name."""


def _tensor(value: Any) -> Any:
    """Values of a dense variable as a LoDTensor without rows; what is none stays: numbers that a script has left."""
    if isinstance(value, LoDTensor | list | tuple):
        return value
    return LoDTensor(shared(value)) if hasattr(value, "dtype") else value
