"""Records by column, without a Python object for any of them; and `fleet.data.Batch`, which models take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from fleet import _native

Index = npt.NDArray[np.int64]
SLOT_TYPES = {"float32": "f", "float64": "d", "int64": "i"}
"""The parser's letter for each dtype that text can become."""


class Ragged(NamedTuple):
    """The values of a ragged slot in a batch: record `r` has `values[offsets[r]:offsets[r + 1]]`.

    `values` is int64, float32 or float64 [n, 1], `offsets` int64 [batch + 1], from 0 to n.
    """

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]


BySlot: TypeAlias = dict[str, npt.NDArray[Any] | Ragged]
"""A batch by the slot's name: `[batch, *shape[1:]]` of a dense slot, or Ragged. It is yours to change."""


@dataclass(frozen=True)
class DataSlot:
    """One column: `shape` is a record's, without the batch; None for a ragged slot."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None

    @property
    def declared(self) -> tuple[str, str, int]:
        """As the native parser wants it."""
        return self.name, SLOT_TYPES[self.dtype], 0 if self.shape is None else math.prod(self.shape)


@dataclass
class Column:
    """A slot of all records: dense `values` [records, width], or ragged ones [n] with `offsets` [records + 1].

    The offsets of a part of a column still count from the column's beginning.
    """

    values: npt.NDArray[Any]
    offsets: Index | None

    def part(self, first: int, last: int) -> Column:
        """Records `first` to `last`, as a view."""
        if self.offsets is None:
            return Column(self.values[first:last], None)
        return Column(self.values, self.offsets[first : last + 1])

    def take(self, index: Index) -> Column:
        """The records that an index names."""
        if self.offsets is None:
            return Column(np.take(self.values, index, axis=0), None)
        return Column(*_native.take_ragged(self.values, self.offsets, index))

    def plain(self) -> tuple[npt.NDArray[Any], Index | None]:
        """Values and offsets that begin with the first of them."""
        if self.offsets is None or (self.offsets[0] == 0 and self.offsets[-1] == len(self.values)):
            return self.values, self.offsets
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        return self.values[first:last], self.offsets - first


@dataclass
class Records:
    """So many records; one column for each slot, and `ids` (hashes) where lines have them."""

    slots: tuple[DataSlot, ...]
    columns: list[Column]
    num: int
    ids: Index | None = None

    def part(self, first: int, last: int) -> Records:
        """Records `first` to `last`, as views."""
        ids = None if self.ids is None else self.ids[first:last]
        return Records(self.slots, [column.part(first, last) for column in self.columns], last - first, ids)

    def take(
        self, index: Index, instead: Mapping[str, Index] | None = None, threads: Executor | None = None
    ) -> Records:
        """The records that an index names. A slot in `instead` takes those that its own index has there."""
        others = {} if instead is None else instead
        indices = [others[slot.name][index] if slot.name in others else index for slot in self.slots]
        columns = list((map if threads is None else threads.map)(Column.take, self.columns, indices))
        return Records(self.slots, columns, len(index), None if self.ids is None else self.ids[index])

    def batch(self) -> BySlot:
        """What a step of training gets."""
        made: BySlot = {}
        for slot, column in zip(self.slots, self.columns, strict=True):
            values, offsets = column.plain()
            if offsets is None:
                made[slot.name] = values.reshape(self.num, *(slot.shape or ()))
            else:
                made[slot.name] = Ragged(values.reshape(-1, 1), offsets)
        return made


def join(pieces: Sequence[Records]) -> Records:
    """All records of at least one piece, in order. Several pieces are taken apart: memory peaks at one column more."""
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]
    columns = []
    for place in range(len(first.slots)):
        columns.append(_join_columns([piece.columns[place] for piece in pieces]))
        for piece in pieces:
            piece.columns[place] = Column(np.empty(0), None)
    ids = None if first.ids is None else np.concatenate([piece.ids for piece in pieces if piece.ids is not None])
    return Records(first.slots, columns, sum(piece.num for piece in pieces), ids)


def _join_columns(columns: list[Column]) -> Column:
    plain = [column.plain() for column in columns]
    values = np.concatenate([values for values, _ in plain])
    ends = [offsets[1:] for _, offsets in plain if offsets is not None]
    if not ends:
        return Column(values, None)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), *ends])
    place, start = 1, 0
    for end, (own, _) in zip(ends, plain, strict=True):
        offsets[place : place + len(end)] += start
        place, start = place + len(end), start + len(own)
    return Column(values, offsets)


class Cutter:
    """Cuts a stream of pieces into batches of `size` records; `rest` is what is left over."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.rest: list[Records] = []

    def add(self, piece: Records) -> Iterator[Records]:
        """The batches that are whole with this piece. Those that lie within it are views."""
        start = 0
        if self.rest:
            waiting = sum(part.num for part in self.rest)
            start = min(self._size - waiting, piece.num)
            self.rest.append(piece.part(0, start))
            if waiting + start < self._size:
                return
            whole, self.rest = join(self.rest), []
            yield whole
        last = start
        for first in range(start, piece.num - self._size + 1, self._size):
            last = first + self._size
            yield piece.part(first, last)
        if last < piece.num:
            self.rest = [piece.part(last, piece.num)]


SlotValues = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""What a slot with several values a sample becomes: int64 [B, length], or (values [n], offsets [B + 1])."""


class Batch(NamedTuple):
    """B samples. What a schema does not have is empty: a dimension of 0, no slots, no weight.

    A bag of any length is `(values, offsets)`: sample `b` has `values[offsets[b]:offsets[b + 1]]`.
    """

    label: torch.Tensor  # float32 [B]; [B, labels] if there are several
    dense: torch.Tensor  # float32 [B, numbers]
    ids: torch.Tensor  # int64 [B, categories]: those that have one value each
    slots: Mapping[str, SlotValues]  # categories with several values, by name
    weight: torch.Tensor | None  # float32 [B]
    numbers: Mapping[
        str, torch.Tensor
    ] = {}  # float64 or int64 [B]: those of these dtypes, by name; nobody writes to it

    @property
    def size(self) -> int:
        """How many samples there are; `len` is that of a tuple."""
        return len(self.label)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same on a device; ids stay in host memory, where keys are looked up."""

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        weight = None if self.weight is None else moved(self.weight)
        numbers = {name: moved(values) for name, values in self.numbers.items()}
        return self._replace(label=moved(self.label), dense=moved(self.dense), weight=weight, numbers=numbers)
