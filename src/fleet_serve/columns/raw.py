"""Ids of raw columns: by the schema in the folder, and by the parser that reads the lines of training's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.errors import UsageError

if TYPE_CHECKING:
    from fleet.data.columns.schema import Category, Schema

Keys = npt.NDArray[np.int64]
_BETWEEN = "\x1f"
"""What stands between the columns of the lines that are made here; texts must not have it."""
_FIRST = ""
"""The name of a column that comes first, so that no line is empty."""


class ColumnIds(NamedTuple):
    """The ids of a column, one after the other; of a bag also where each sample's begin, and the end."""

    ids: Keys
    offsets: Keys | None = None


class RawColumns:
    """Makes ids by a schema. Used from any number of threads."""

    def __init__(self, plain: Mapping[str, Any], where: str) -> None:
        self._plain, self._where = plain, where

    @cached_property
    def schema(self) -> Schema:
        """The schema; UsageError if this version of Fleet does not know its form."""
        from fleet.data.columns.schema import Schema

        return replace(Schema.from_plain(self._plain, self._where), label=None, weight=None, numbers=(), columns=None)

    def ids(self, columns: Mapping[str, Sequence[Any]], wanted: Iterable[str]) -> dict[str, ColumnIds]:
        """The ids of the wanted categories, made of these columns; UsageError in one line where they cannot be made.

        A value is what stands in a field of a file, as text; a whole number stands for its decimal text, None for a
        gap, a list for the values of a bag.
        """
        from fleet.data.formats.text_plan import TextPlan

        schema = self._of(set(wanted))
        if missing := [name for name in schema.names if name not in columns]:
            raise UsageError(f"the request lacks column {missing[0]!r}, which the schema makes ids of; send it")
        several = {one.name: one for one in schema.several}
        texts = [[_text(name, value, several.get(name)) for value in columns[name]] for name in schema.names]
        if len({len(one) for one in texts}) > 1:
            sizes = ", ".join(f"{name!r} {len(one)}" for name, one in zip(schema.names, texts, strict=True))
            raise UsageError(
                f"the columns of a request must have one length, got {sizes}; send a value for each sample"
            )
        lines = "".join(f"x{_BETWEEN}{_BETWEEN.join(row)}\n" for row in zip(*texts, strict=True))
        plan = TextPlan(schema, (_FIRST, *schema.names))
        records, _, bad = plan.parse(np.frombuffer(lines.encode(), np.uint8))
        if bad:
            row, _, what = bad[0]
            raise UsageError(f"value {row} of the columns cannot be read: {what}; mend it, or send the others alone")
        batch = schema.batch(records)
        single = batch.ids.numpy()
        found = {one.name: ColumnIds(np.ascontiguousarray(single[:, place])) for place, one in enumerate(schema.single)}
        for one in schema.several:
            slot = batch.slots[one.name]
            if isinstance(slot, tuple):
                found[one.name] = ColumnIds(slot[0].numpy(), slot[1].numpy())
            else:
                found[one.name] = ColumnIds(np.ascontiguousarray(slot.numpy()).reshape(-1))
        return found

    def _of(self, names: set[str]) -> Schema:
        """The schema of these categories, and of what they are made of."""
        there = {one.name: one for one in self.schema.all_categories}
        if unknown := names - set(there):
            known = ", ".join(map(repr, there)) or "none"
            raise UsageError(f"the schema has no category {min(unknown)!r}; ask for one of: {known}")
        read, derived = set(names), []
        for one in reversed(self.schema.derived):
            if one.name in read:
                derived.append(one)
                read |= set(one.of)
        kept = [one for name, one in there.items() if name in names]
        return replace(
            self.schema, categories=kept, derived=derived[::-1], delimiter=_BETWEEN, quotes=False, header=False
        )


def _text(column: str, value: Any, bag: Category | None) -> str:
    """What would stand in a file."""
    if isinstance(value, list) and bag is not None and bag.separator is not None:
        parts = [_text(column, one, None) for one in value]
        if odd := [part for part in parts if bag.separator in part]:
            raise UsageError(
                f"column {column!r} has {odd[0]!r:.80} in a list, which has its separator; send two values"
            )
        return bag.separator.join(parts)
    if value is None:
        return ""
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise UsageError(
            f"column {column!r} has {value!r:.80}; send each value as the text that stands in a file, or a whole number"
        )
    if any(end in value for end in ("\n", "\r", _BETWEEN)):
        raise UsageError(
            f"column {column!r} has {value!r:.80}, which no field can hold: it ends a line; leave that out"
        )
    return value
