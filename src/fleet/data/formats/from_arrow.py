"""Tables of Arrow as records of a schema. Rows that cannot be used are left out and noted, as bad lines of text are."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.data.columns.blocks import BadRows, Problems
from fleet.data.columns.records import Column, Records
from fleet.data.columns.schema import Category, Number, Schema
from fleet.data.formats.arrow_values import Values, bags, ids, input_of, numbers_in, with_gaps
from fleet.data.formats.derived_columns import derived_columns, empty_id, ids_of, numbers_of
from fleet.data.formats.number_columns import Numbers, matrix_of, number_column, side_by_side


def records_of(table: Any, schema: Schema, path: str, first_row: Callable[[], int], problems: Problems) -> Records:
    """The rows of a table, which has the columns of the schema. `first_row` is asked where a row must be named."""
    bad = BadRows(table.num_rows)
    read = _Table(table, schema, bad)
    columns = []
    for slot in schema.layout:
        if slot.name == "label":
            columns.append(read.matrix("label", [Number(name) for name in schema.labels]))
        elif slot.name == "weight":
            columns.append(read.matrix("weight", [Number(str(schema.weight))]))
        elif slot.name == "dense":
            columns.append(read.matrix("column", schema.narrow))
        elif slot.name == "ids":
            columns.append(read.ids())
    columns += [read.matrix("column", [one]) for one in schema.wide]
    columns += [read.bag(one) for one in schema.several]
    records = Records(schema.layout, columns, table.num_rows)
    kept = bad.finish(path, first_row, problems)
    return records if kept is None else records.take(kept)


class _Table:
    """The columns of a table, and those derived from them."""

    def __init__(self, table: Any, schema: Schema, bad: BadRows) -> None:
        self._table, self._schema, self._bad = table, schema, bad
        self._derived: dict[str, npt.NDArray[Any]] = {}
        self._derived = derived_columns(schema, table.num_rows, self._input, bad)

    def _input(self, name: str, kind: str) -> npt.NDArray[Any]:
        if kind == "float64":
            numbers = list(self._numbers(name))
            found = number_column("column", Number(name, dtype=kind), numbers, self._table.num_rows, self._bad)
            for first, part, gaps in numbers:
                if gaps is not None:
                    found[first : first + len(part)][gaps] = np.nan
            return found
        parts: list[npt.NDArray[Any]] = [input_of(array, kind) for _, array in self._chunks(name)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=object)

    def matrix(self, role: str, declared: Sequence[Number]) -> Column:
        """Columns of numbers, side by side."""
        num = self._table.num_rows
        columns = [number_column(role, one, self._numbers(one.name), num, self._bad) for one in declared]
        return Column(side_by_side(columns, num, columns[0].dtype), None)

    def _numbers(self, name: str) -> Iterator[Numbers]:
        if name in self._derived:
            yield numbers_of(name, self._derived[name])
            return
        for first, array in self._chunks(name):
            yield Numbers(first, *numbers_in(array))

    def ids(self) -> Column:
        """The categories with one value."""
        columns = []
        for one in self._schema.single:
            if one.name in self._derived:
                columns.append(ids_of(self._derived[one.name], one, self._bad))
                continue
            parts = [np.empty(0, np.int64)]
            for first, array in self._chunks(one.name):
                found = ids(array, one)
                parts.append(found.ids)
                _note(found, None, one, array, first, self._bad)
                if found.gaps is not None and not one.hash and one.missing is None:
                    self._bad.add(np.flatnonzero(found.gaps) + first, lambda _, one=one: empty_id(one.name))  # type: ignore[misc]
            columns.append(parts[1] if len(parts) == 2 else np.concatenate(parts))
        return Column(side_by_side(columns, self._table.num_rows, np.int64), None)

    def bag(self, one: Category) -> Column:
        """A category with several values."""
        values, ends = [np.empty(0, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
        count = 0
        for first, array in self._chunks(one.name):
            found, offsets = bags(array, one, self._schema.na_values)
            _note(found, offsets, one, array, first, self._bad)
            values.append(found.ids)
            ends.append(offsets[1:] + count)
            count += len(found.ids)
        every, offsets = np.concatenate(values), np.concatenate(ends)
        if one.length is None:
            return Column(every, offsets)
        return Column(matrix_of(every, offsets, one.length, one.padding), None)

    def _chunks(self, name: str) -> Iterator[tuple[int, Any]]:
        """The arrays of a column, each with its first row."""
        first = 0
        for array in self._table.column(name).chunks:
            yield first, with_gaps(array, self._schema.na_values)
            first += len(array)


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
