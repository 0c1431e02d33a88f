"""MultiSlot text as a format of files: cut by bytes as other text, parsed by csrc/data/multislot.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.data.columns.records import Column, Records, join
from fleet.data.columns.schema import Number
from fleet.data.formats.bad_rows import BadRows
from fleet.data.formats.matrices import matrix_of, side_by_side
from fleet.data.formats.multislot_schema import MultiSlot
from fleet.data.formats.number_columns import Numbers, number_column
from fleet.data.formats.text import TextFormat
from fleet.data.formats.text_head import Head
from fleet.data.formats.text_plan import Bad, Text
from fleet.errors import UsageTypeError


class MultiSlotFormat(TextFormat):
    """A `FileFormat`. A line that cannot be read is left out and noted, as those of other text are."""

    def __init__(self, schema: MultiSlot) -> None:
        given: object = schema
        if not isinstance(given, MultiSlot):
            raise UsageTypeError(
                f"files of MultiSlot text need a fleet.data.MultiSlot, which says the slots, got {type(given).__name__}"
            )
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
