"""Samples that can be reached by position, and how a batch of them is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from fleet.data.reading.memory import Examples
from fleet.errors import UsageError, UsageTypeError

Collate = Callable[[list[Any]], Any]


class Source(Protocol):
    """Samples by position."""

    def __len__(self) -> int: ...
    def batch(self, indices: torch.Tensor) -> Any:
        """The samples at `indices` (int64, on the CPU) as one batch, which shares no memory with the data."""


class Columns(Source):
    """Tensors and arrays with a sample in each row. Rows are picked at once; numbers of numpy become tensors."""

    def __init__(self, columns: Sequence[Any], wrap: Callable[[list[Any]], Any]) -> None:
        for column in columns:
            if not isinstance(column, torch.Tensor | np.ndarray) or column.ndim == 0:
                raise UsageTypeError(
                    f"a tuple of data must hold tensors or arrays with a row for each sample, got {_kind_of(column)}; "
                    "give samples of other kinds as a list"
                )
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise UsageError(f"the tensors of a tuple must have a row for each sample, got {lengths} rows")
        self._columns = columns
        self._wrap = wrap

    def __len__(self) -> int:
        return len(self._columns[0])

    def batch(self, indices: torch.Tensor) -> Any:
        return self._wrap([_rows(column, indices) for column in self._columns])


class Items(Source):
    """Anything with `__len__` and `__getitem__`: its samples are picked one by one and collated."""

    def __init__(self, data: Any, collate: Collate | None) -> None:
        self._data = data
        self._pick: Callable[[list[int]], list[Any]] = getattr(data, "__getitems__", self._one_by_one)
        self._collate = _collate if collate is None else collate

    def __len__(self) -> int:
        return len(self._data)

    def batch(self, indices: torch.Tensor) -> Any:
        return self._collate(self._pick(indices.tolist()))

    def _one_by_one(self, indices: list[int]) -> list[Any]:
        return [self._data[index] for index in indices]


def source_of(data: Any, collate: Collate | None) -> Source | None:
    """The samples of `data`, or None if it has no positions."""
    if isinstance(data, Examples):
        if collate is not None:
            raise UsageError("collate is for samples that are picked one by one; examples of files are batches already")
        return data
    if isinstance(data, str | bytes | Mapping) or hasattr(data, "iloc"):
        raise UsageTypeError(f"data has its samples in a {type(data).__name__}; give a tuple of tensors, or a list")
    if isinstance(data, IterableDataset | type) or not hasattr(data, "__getitem__"):
        return None
    if not hasattr(data, "__len__"):
        raise UsageTypeError(f"data of type {type(data).__name__} has no length; give it __len__, or give an iterable")
    if isinstance(data, TensorDataset):
        data = data.tensors
    columns: Columns | None = None
    if isinstance(data, torch.Tensor | np.ndarray):
        columns = Columns([data], lambda batch: batch[0])
    elif isinstance(data, tuple) and data:
        columns = Columns(data, getattr(data, "_make", tuple))
    if columns is not None and collate is not None:
        raise UsageError("collate is for samples that are picked one by one; tensors and arrays are batches already")
    return Items(data, collate) if columns is None else columns


def _rows(column: torch.Tensor | np.ndarray[Any, Any], indices: torch.Tensor) -> Any:
    if isinstance(column, torch.Tensor):
        return column[indices.to(column.device)]
    rows = column[indices.numpy()]
    return torch.from_numpy(np.ascontiguousarray(rows)) if rows.dtype.kind in "biufc" else rows


def _collate(samples: list[Any]) -> Any:
    try:
        return default_collate(samples)
    except TypeError as error:
        first = str(error).splitlines()[0]
        raise UsageTypeError(f"samples like {_kind_of(samples[0])} need collate=, a function: {first}") from error


def _kind_of(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__}" + ("" if shape is None else f" of shape {list(shape)}")
