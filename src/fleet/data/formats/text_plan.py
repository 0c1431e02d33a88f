"""A schema as the native parser takes it, and what the parser makes of a text as records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.data.records import Column, Records
from fleet.data.schema import Category, Schema

Text = npt.NDArray[np.uint8]
Bad = list[tuple[int, int, str]]
"""Of bad lines: the line from 0 and the byte it begins at, both in the text, and what is wrong."""


class TextPlan:
    """How lines with these columns are read. Used from several threads at once."""

    def __init__(self, schema: Schema, columns: tuple[str, ...]) -> None:
        self._made_of = schema, columns
        self._slots = schema.layout
        self._has = bool(schema.labels), bool(schema.numbers), bool(schema.single), schema.weight is not None
        plan = _native.DelimitedText(len(columns), schema.delimiter, schema.has_quotes)
        for name in schema.labels:
            plan.add_label(columns.index(name), name)
        for number in schema.all_numbers:
            plan.add_number(columns.index(number.name), number.name, number.log, number.missing)
        for one in schema.single:
            plan.add_id(columns.index(one.name), one.name, *_rule(one))
        for one in schema.several:
            plan.add_bag(columns.index(one.name), one.name, *_rule(one), one.separator or "", one.length or 0)
        if schema.weight is not None:
            plan.add_weight(columns.index(schema.weight), schema.weight)
        self._plan = plan

    def __reduce__(self) -> tuple[type[TextPlan], tuple[Schema, tuple[str, ...]]]:
        return TextPlan, self._made_of

    def parse(self, text: Text) -> tuple[Records, int, Bad]:
        """The records of whole lines, how many lines there were, and some of the bad ones."""
        num_lines, num, labels, numbers, ids, weights, bags, bad = self._plan.parse(text)
        matrices: list[npt.NDArray[Any]] = [labels, numbers, ids, weights]
        columns = [Column(values, None) for values, has in zip(matrices, self._has, strict=True) if has]
        columns += [Column(values, offsets) for values, offsets in bags]
        return Records(self._slots, columns, num), num_lines, bad


def _rule(one: Category) -> tuple[str, int, list[float], int]:
    kind = "b" if one.bounds is not None else "h" if one.hash else "p"
    seed = _native.slot_seed(one.hashed_as)
    bounds: list[Any] = list(one.bounds or ())
    if one.has_several or kind == "p":
        return kind, seed, bounds, one.padding
    return kind, seed, bounds, int(_native.hash_text(seed, np.empty(0, np.uint8), np.zeros(2, np.int64))[0])
