"""MultiSlot text as a format of files: cut by bytes as other text, parsed by csrc/data/multislot.h.

The schema names the slots in the order of the lines:

    schema = MultiSlot(["click", Slot("price", floats=2), Slot("user", width=1), "tags"], label="click")
    fleet.data.files("clicks", schema, batch_size=1000)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.checks import count_of
from fleet.data.columns.blocks import BadRows
from fleet.data.columns.records import Column, DataSlot, Records, join
from fleet.data.columns.schema import Category, Number, Schema
from fleet.data.formats.number_columns import Numbers, matrix_of, number_column, side_by_side
from fleet.data.formats.text import TextFormat
from fleet.data.formats.text_head import Head
from fleet.data.formats.text_plan import Bad, Text
from fleet.errors import UsageError, UsageTypeError


@dataclass(frozen=True)
class Slot:
    """A slot of ids, of which each sample has any number: a bag.

    `width`: each sample has exactly so many; with 1 the slot is a column of a batch's `ids`. `length`: any number, of
    which the last `length` are kept, filled up with `padding`: a matrix. `floats`: so many numbers, not ids, which
    go into `dense`, or with `dtype="float64"` or `"int64"` into `Batch.numbers` (see `Number`). `skip`: the lines have
    it, and nobody reads it.
    """

    name: str
    width: int | None = None
    length: int | None = None
    padding: int = 0
    floats: int | None = None
    skip: bool = False
    dtype: str | None = None

    def __post_init__(self) -> None:
        if self.dtype is not None and self.floats is None:
            raise UsageError(f"slot {self.name!r} has ids, which are int64; dtype= is for numbers: give floats= too")
        given = {"width": self.width, "length": self.length, "floats": self.floats}
        set_ = [name for name, value in given.items() if value is not None]
        if len(set_) > 1:
            raise UsageError(f"slot {self.name!r} has {set_[0]} and {set_[1]}; leave one of them out")
        if set_:
            count_of(f"{set_[0]} of slot {self.name!r}", given[set_[0]])
        if self.padding and self.length is None:
            raise UsageError(f"slot {self.name!r} has nothing to fill up with padding; give length=, or leave it out")

    @property
    def data_slot(self) -> DataSlot:
        """As the native parser reads it."""
        if self.floats is not None:
            return DataSlot(self.name, "int64" if self.dtype == "int64" else "float64", (self.floats,))
        return DataSlot(self.name, "int64", None if self.width is None else (self.width,))

    @property
    def numbers(self) -> list[Number]:
        """Each of its numbers in a schema."""
        if self.floats is None:
            return []
        names = [self.name] if self.floats == 1 else [f"{self.name}.{place}" for place in range(self.floats)]
        return [Number(name, dtype=self.dtype) for name in names]

    @property
    def category(self) -> Category:
        """Its ids in a schema."""
        if self.length is None and self.width is None:
            return Category(self.name, hash=False, separator=" ")
        length = self.width if self.length is None else self.length
        return Category(self.name, hash=False, length=None if self.width == 1 else length, padding=self.padding)


@dataclass(frozen=True, init=False)
class MultiSlot(Schema):
    """The slots of each line, in order; a name alone is a bag of ids. `label` and `weight` name slots of one number."""

    slots: tuple[Slot, ...] = ()

    def __init__(
        self, slots: Sequence[str | Slot], label: str | Sequence[str] | None = None, weight: str | None = None
    ) -> None:
        given: object = slots
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise UsageTypeError(f"MultiSlot takes a list of slots, got {given!r}")
        labels = [] if label is None else [label] if isinstance(label, str) else list(label)
        single = {*labels, *([] if weight is None else [weight])}
        every = tuple(_slot(one, single) for one in slots)
        names = [one.name for one in every]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"slot {twice[0]!r} stands twice; a line has one place for each")
        if missing := [name for name in [*labels, weight] if name is not None and name not in names]:
            raise UsageError(f"slot {missing[0]!r} is not among the slots: {', '.join(names)}")
        for one in every:
            if one.name in single and (one.floats != 1 or one.skip):
                raise UsageError(f"slot {one.name!r} is a label or weight, which is one number: floats=1")
        object.__setattr__(self, "slots", every)
        read = [one for one in every if not one.skip and one.name not in single]
        super().__init__(
            label=label,
            numbers=[number for one in read for number in one.numbers],
            categories=[one.category for one in read if one.floats is None],
            weight=weight,
        )

    def file_format(self) -> MultiSlotFormat:
        return MultiSlotFormat(self)


def _slot(given: object, single: set[str]) -> Slot:
    if isinstance(given, Slot):
        return given
    if not isinstance(given, str) or not given:
        raise UsageTypeError(f"a slot is a name or a fleet_programs.Slot, got {given!r}")
    return Slot(given, floats=1 if given in single else None)


class MultiSlotFormat(TextFormat):
    """A `FileFormat`. A line that cannot be read is left out and noted, as those of other text are."""

    def __init__(self, schema: MultiSlot) -> None:
        self.schema = schema
        self._heads: dict[str, Head] = {}
        self._slots = SlotPlan(schema)

    def _plan(self, head: Head) -> SlotPlan:  # noqa: ARG002
        return self._slots


class SlotPlan:
    """How lines of these slots become records. Used from several threads at once."""

    def __init__(self, schema: MultiSlot) -> None:
        self._schema = schema
        self._declared = [one.data_slot.declared for one in schema.slots]

    def parse(self, text: Text) -> tuple[Records, int, Bad]:
        """The records of whole lines, how many lines there were, and the bad ones."""
        made: list[Records] = []
        bad: Bad = []
        start = line = num = 0
        while True:
            end, found = len(text), self._native(text[start:])
            consumed, num_lines, *_, problem = found
            if problem is not None:
                end = start + consumed
                bad.append((line + num_lines, end, problem[1]))
                num += 1
                found = self._native(text[start:end])
            num += found[2]
            made.append(self._records(found[2], found[4], line, bad))
            if problem is None:
                return join(made), num, sorted(bad)
            line += num_lines + 1
            start = end + _length_of_line(text[end:])

    def _native(self, text: Text) -> tuple[Any, ...]:
        return _native.parse_multislot(text, True, self._declared)

    def _records(self, num: int, columns: list[Any], line: int, bad: Bad) -> Records:
        """Columns of slots as those of a schema's layout; numbers that float32 changes are noted as bad lines."""
        schema = self._schema
        of = {one.name: column for one, column in zip(schema.slots, columns, strict=True)}
        wrong = BadRows(num)

        def numbers(role: str, of_slot: Any, declared: Sequence[Number]) -> list[npt.NDArray[Any]]:
            parts = zip(declared, of_slot.T, strict=True)
            return [number_column(role, one, [Numbers(0, found, None)], num, wrong) for one, found in parts]

        made = {"ids": _side_by_side([of[one.name][0] for one in schema.single])}
        dense: list[npt.NDArray[Any]] = []
        for slot in schema.slots:
            if not slot.floats or slot.skip or slot.name in (*schema.labels, schema.weight):
                continue
            found = numbers("column", of[slot.name][0], slot.numbers)
            if slot.dtype in ("float64", "int64"):
                made |= {one.name: Column(part[:, None], None) for one, part in zip(slot.numbers, found, strict=True)}
            else:
                dense += found
        labels = [part for name in schema.labels for part in numbers("label", of[name][0], [Number(name)])]
        made |= {"label": _matrix(labels, num), "dense": _matrix(dense, num)}
        if schema.weight is not None:
            made["weight"] = _matrix(numbers("weight", of[schema.weight][0], [Number(schema.weight)]), num)
        for one in schema.several:
            values, offsets = of[one.name]
            if one.length is not None and offsets is not None:
                values, offsets = matrix_of(values, offsets, one.length, one.padding), None
            made[one.name] = Column(values, offsets)
        records = Records(schema.layout, [made[slot.name] for slot in schema.layout], num)
        if (kept := wrong.kept()) is None:
            return records
        bad += [(line + row, 0, what) for row, what in wrong.told()]
        return records.take(kept)


def _matrix(columns: list[npt.NDArray[Any]], num: int) -> Column:
    return Column(side_by_side(columns, num, np.float32), None)


def _side_by_side(columns: list[npt.NDArray[Any]]) -> Column:
    if len(columns) == 1:
        return Column(columns[0], None)
    return Column(np.concatenate(columns, axis=1) if columns else np.empty((0, 0)), None)


def _length_of_line(text: Text) -> int:
    """With its newline, if it has one."""
    step = 4096
    for start in range(0, len(text), step):
        place = text[start : start + step].tobytes().find(b"\n")
        if place >= 0:
            return start + place + 1
    return len(text)
