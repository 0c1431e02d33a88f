"""Tables of Arrow as records of a schema. Rows that cannot be used are left out and noted, as bad lines of text are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.data.blocks import Problems
from fleet.data.formats.arrow_values import Values, bags, floats, ids
from fleet.data.formats.bad_rows import BadRows
from fleet.data.formats.matrices import matrix_of, side_by_side
from fleet.data.records import Column, Records
from fleet.data.schema import Category, Number, Schema

FloatMatrix = npt.NDArray[np.float32]


def records_of(table: Any, schema: Schema, path: str, first_row: Callable[[], int], problems: Problems) -> Records:
    """The rows of a table, which has the columns of the schema. `first_row` is asked where a row must be named."""
    num = table.num_rows
    bad = BadRows(num)
    columns = []
    for slot in schema.layout:
        if slot.name == "label":
            columns.append(_dense([_required("label", name) for name in schema.labels], table, bad))
        elif slot.name == "weight":
            columns.append(_dense([_required("weight", str(schema.weight))], table, bad))
        elif slot.name == "dense":
            columns.append(_dense([_optional(one) for one in schema.all_numbers], table, bad))
        elif slot.name == "ids":
            columns.append(_ids(schema.single, table, bad))
    columns += [_bag(one, table, bad) for one in schema.several]
    records = Records(schema.layout, columns, num)
    kept = bad.finish(path, first_row, problems)
    return records if kept is None else records.take(kept)


Fill = tuple[str, str, Callable[[npt.NDArray[Any], npt.NDArray[np.float32]], None]]
"""What a column is, its name, and what writes its numbers, with NaN for gaps, into a column of a matrix."""


def _required(role: str, name: str) -> Fill:
    def fill(found: npt.NDArray[Any], out: npt.NDArray[np.float32]) -> None:
        out[:] = found

    return role, name, fill


def _optional(one: Number) -> Fill:
    def fill(found: npt.NDArray[Any], out: npt.NDArray[np.float32]) -> None:
        gaps = np.isnan(found) if found.dtype.kind == "f" else None
        if one.log:
            found = _native.signed_log(np.ascontiguousarray(found, dtype=np.float64))
        out[:] = found
        if gaps is not None:
            out[gaps] = one.missing

    return "column", one.name, fill


def _dense(fills: list[Fill], table: Any, bad: BadRows) -> Column:
    columns = []
    for role, name, fill in fills:
        column = np.empty(table.num_rows, dtype=np.float32)
        columns.append(column)
        for first, array in _chunks(table, name):
            found, out = floats(array), column[first : first + len(array)]
            with np.errstate(over="ignore"):
                fill(found, out)
            if not (is_good := np.isfinite(out)).all():
                wrong = np.flatnonzero(~is_good)
                bad.add(wrong + first, _no_float(role, name, found[wrong]))
    return Column(side_by_side(columns, table.num_rows, np.float32), None)


def _no_float(role: str, name: str, found: npt.NDArray[Any]) -> Callable[[int], str]:
    def what(place: int) -> str:
        value = found[place]
        if np.isnan(value):
            return f"{role} {name!r} is empty"
        return f"{role} {name!r} has {value}, which float32 cannot hold"

    return what


def _ids(categories: tuple[Category, ...], table: Any, bad: BadRows) -> Column:
    columns = []
    for one in categories:
        parts = []
        for first, array in _chunks(table, one.name):
            found = ids(array, one)
            parts.append(found.ids)
            _note(found, None, one, array, first, bad)
        columns.append(parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts]))
    return Column(side_by_side(columns, table.num_rows, np.int64), None)


def _bag(one: Category, table: Any, bad: BadRows) -> Column:
    values, ends = [np.empty(0, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
    count = 0
    for first, array in _chunks(table, one.name):
        found, offsets = bags(array, one)
        _note(found, offsets, one, array, first, bad)
        values.append(found.ids)
        ends.append(offsets[1:] + count)
        count += len(found.ids)
    every, offsets = np.concatenate(values), np.concatenate(ends)
    if one.length is None:
        return Column(every, offsets)
    return Column(matrix_of(every, offsets, one.length, one.padding), None)


def _note(found: Values, offsets: Any, one: Category, array: Any, first: int, bad: BadRows) -> None:
    if found.wrong is None or not found.wrong.any():
        return
    places = np.flatnonzero(found.wrong)
    rows = places if offsets is None else np.unique(np.searchsorted(offsets, places, side="right") - 1)
    needs = "number" if one.bounds is not None else "int64"

    def what(place: int) -> str:
        value = array[int(rows[place])].as_py()
        shown = str(value) if len(str(value)) <= 40 else f"{str(value)[:40]}.."
        kind = f"which is no {needs}" if offsets is None else f"which are not all {needs}s"
        return f"column {one.name!r} has {shown}, {kind}"

    bad.add(rows + first, what)


def _chunks(table: Any, name: str) -> Iterator[tuple[int, Any]]:
    """The arrays of a column, each with its first row."""
    first = 0
    for array in table.column(name).chunks:
        yield first, array
        first += len(array)
