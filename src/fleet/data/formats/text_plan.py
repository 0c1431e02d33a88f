"""A schema as the native parser takes it, and what the parser makes of a text as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.data.columns.blocks import BadRows
from fleet.data.columns.records import Column, Records
from fleet.data.columns.schema import Category, Number, Schema
from fleet.data.formats.derived_columns import derived_columns, ids_of, numbers_of
from fleet.data.formats.number_columns import number_column, side_by_side

Text = npt.NDArray[np.uint8]
Bad = list[tuple[int, int, str]]
"""Bad lines: the line from 0 and the byte it begins at, both in the text, and what is wrong."""


class TextPlan:
    """How lines with these columns are read. Used from several threads at once."""

    def __init__(self, schema: Schema, columns: tuple[str, ...]) -> None:
        self._made_of = schema, columns
        self._schema = schema
        self._computed = {one.name for one in schema.derived}
        plan = _native.DelimitedText(len(columns), schema.delimiter, schema.has_quotes)
        for text in schema.na_values:
            plan.add_gap(text)
        for name in filter(self._is_read, schema.labels):
            plan.add_label(columns.index(name), name)
        for one in schema.all_numbers:
            if self._is_read(one.name):
                _add_number(plan, columns.index(one.name), one)
        for category in schema.single:
            if self._is_read(category.name):
                plan.add_id(columns.index(category.name), category.name, *_rule(category))
        for one in schema.wide:
            if one.dtype == "int64" and self._is_read(one.name):
                plan.add_id(columns.index(one.name), one.name, "p", 0, [], int(one.missing))
        for category in schema.several:
            length = category.length or 0
            plan.add_bag(
                columns.index(category.name), category.name, *_rule(category)[:4], category.separator or "", length
            )
        if schema.weight is not None and self._is_read(schema.weight):
            plan.add_weight(columns.index(schema.weight), schema.weight)
        inputs = {(name, kind): None for one in schema.derived for name, kind in one.of.items()}
        self._inputs = [(name, kind) for name, kind in inputs if name not in self._computed]
        for name, kind in self._inputs:
            if kind == "float64":
                plan.add_double(columns.index(name), name, float("nan"))
            else:
                plan.add_text(columns.index(name), name)
        if self._computed:
            plan.keep_begins()
        self._plan = plan

    def _is_read(self, name: str) -> bool:
        return name not in self._computed

    def __reduce__(self) -> tuple[type[TextPlan], tuple[Schema, tuple[str, ...]]]:
        return TextPlan, self._made_of

    def parse(self, text: Text) -> tuple[Records, int, Bad]:
        """The records of whole lines, how many lines there were, and some of the bad ones."""
        schema = self._schema
        num_lines, num, labels, numbers, ids, weights, bags, bad, doubles, texts, begins = self._plan.parse(text)
        wrong = BadRows(num)
        inputs = self._given(doubles, texts)
        derived = derived_columns(schema, num, lambda name, kind: inputs[name, kind], wrong)

        def matrix(role: str, declared: Sequence[Number], values: npt.NDArray[Any]) -> Column:
            """The native matrix with the derived columns where they belong."""
            if not self._computed & {one.name for one in declared}:
                return Column(values, None)
            read = iter(values.T)
            made = [
                number_column(role, one, [numbers_of(one.name, derived[one.name])], num, wrong)
                if one.name in derived
                else next(read)
                for one in declared
            ]
            return Column(side_by_side(made, num, made[0].dtype), None)

        columns: dict[str, Column] = {
            "label": matrix("label", [Number(name) for name in schema.labels], labels),
            "dense": matrix("column", schema.narrow, numbers),
            "weight": matrix("weight", [] if schema.weight is None else [Number(schema.weight)], weights),
        }
        read_ids, read_doubles = iter(ids.T), iter(doubles.T)
        if self._computed or schema.wide:
            singles = [
                ids_of(derived[one.name], one, wrong) if one.name in derived else next(read_ids)
                for one in schema.single
            ]
            ids = side_by_side(singles, num, np.int64)
        columns["ids"] = Column(ids, None)
        for one in schema.wide:
            read = read_ids if one.dtype == "int64" else read_doubles
            of_file = next(read)[:, None] if self._is_read(one.name) else np.empty((0, 0))
            columns[one.name] = matrix("column", [one], of_file)
        columns |= {one.name: Column(*bag) for one, bag in zip(schema.several, bags, strict=True)}
        slots = schema.layout
        records = Records(slots, [columns[slot.name] for slot in slots], num)
        if (kept := wrong.kept()) is not None:
            records = records.take(kept)
            places = [(int(begins[row]), what) for row, what in wrong.told()]
            bad = sorted([*bad, *((_native.count_lines(text[:begin]), begin, what) for begin, what in places)])
        return records, num_lines, bad

    def _given(self, doubles: npt.NDArray[Any], texts: Sequence[Any]) -> dict[tuple[str, str], npt.NDArray[Any]]:
        """What functions of derived columns are given."""
        num_numbers = sum(kind == "float64" for _, kind in self._inputs)
        of_text, of_numbers = iter(texts), iter(doubles.T[doubles.shape[1] - num_numbers :])
        given = {}
        for name, kind in self._inputs:
            if kind == "float64":
                given[name, kind] = np.ascontiguousarray(next(of_numbers))
            else:
                content, _ = next(of_text)
                parts = content.tobytes().decode(errors="surrogateescape").split("\n")
                given[name, kind] = np.array(parts[:-1], dtype=object)
        return given


def _add_number(plan: _native.DelimitedText, column: int, one: Number) -> None:
    if one.dtype == "float64":
        plan.add_double(column, one.name, one.missing)
    elif one.dtype != "int64":
        plan.add_number(column, one.name, one.log, one.missing, one.dtype is not None)


def _rule(one: Category) -> tuple[str, int, list[float], int, bool]:
    kind = "b" if one.bounds is not None else "h" if one.hash else "p"
    seed = _native.slot_seed(one.hashed_as)
    bounds: list[Any] = list(one.bounds or ())
    if one.has_several:
        return kind, seed, bounds, one.padding, True
    if kind == "p":
        return kind, seed, bounds, one.missing or 0, one.missing is not None
    gap = int(_native.hash_text(seed, np.empty(0, np.uint8), np.zeros(2, np.int64))[0])
    return kind, seed, bounds, gap, True
