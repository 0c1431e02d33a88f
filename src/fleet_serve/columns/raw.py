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
    from fleet.data.columns.records import Batch
    from fleet.data.columns.schema import Category, Schema

Keys = npt.NDArray[np.int64]
_BETWEEN = "\x1f"
"""What stands between the columns of the lines that are made here; texts must not have it."""
_FORM: dict[str, Any] = {"delimiter": _BETWEEN, "quotes": False, "header": False}
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

        return replace(Schema.from_plain(self._plain, self._where), label=None, weight=None, columns=None)

    def ids(self, columns: Mapping[str, Sequence[Any]], wanted: Iterable[str]) -> dict[str, ColumnIds]:
        """The ids of the wanted categories, made of these columns; UsageError in one line where they cannot be made.

        A value is what stands in a field of a file, as text; a whole number stands for its decimal text, None for a
        gap, a list for the values of a bag.
        """
        schema = self._of(set(wanted))
        batch = _batch(schema, columns)
        single = batch.ids.numpy()
        found = {one.name: ColumnIds(np.ascontiguousarray(single[:, place])) for place, one in enumerate(schema.single)}
        for one in schema.several:
            slot = batch.slots[one.name]
            if isinstance(slot, tuple):
                found[one.name] = ColumnIds(slot[0].numpy(), slot[1].numpy())
            else:
                found[one.name] = ColumnIds(np.ascontiguousarray(slot.numpy()).reshape(-1))
        return found

    def inputs(self, columns: Mapping[str, Sequence[Any]], wanted: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
        """What a batch of training calls so: `ids`, `dense`, matrices of columns with a length by their names."""
        names = set(wanted)
        there = {"ids", "dense", *(one.name for one in self.schema.several if one.length is not None)}
        if unknown := names - there:
            raise UsageError(
                f"the schema makes no input {min(unknown)!r} of columns, only {', '.join(sorted(there))}; send it "
                "among inputs"
            )
        batch = _batch(replace(self.schema, **_FORM), columns)
        made = {"ids": batch.ids, "dense": batch.dense, **batch.slots}
        found = {name: made[name] for name in names}
        return {name: one.numpy() for name, one in found.items() if not isinstance(one, tuple)}

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
        return replace(self.schema, numbers=(), categories=kept, derived=derived[::-1], **_FORM)


def _batch(schema: Schema, columns: Mapping[str, Sequence[Any]]) -> Batch:
    """These columns as lines, read as lines of files are."""
    from fleet.data.formats.text_plan import TextPlan

    if missing := [name for name in schema.names if name not in columns]:
        raise UsageError(f"the request lacks column {missing[0]!r}, which the schema makes ids of; send it")
    several, numbers = {one.name: one for one in schema.several}, {one.name for one in schema.all_numbers}
    texts = [
        [_text(name, value, several.get(name), name in numbers) for value in columns[name]] for name in schema.names
    ]
    if len({len(one) for one in texts}) > 1:
        sizes = ", ".join(f"{name!r} {len(one)}" for name, one in zip(schema.names, texts, strict=True))
        raise UsageError(f"the columns of a request must have one length, got {sizes}; send a value for each sample")
    lines = "".join(f"x{_BETWEEN}{_BETWEEN.join(row)}\n" for row in zip(*texts, strict=True))
    try:
        data = lines.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the columns have {lines[error.start]!r}, half of a pair, which is no text; send whole characters"
        ) from None
    records, _, bad = TextPlan(schema, (_FIRST, *schema.names)).parse(np.frombuffer(data, np.uint8))
    if bad:
        row, _, what = bad[0]
        raise UsageError(f"value {row} of the columns cannot be read: {what}; mend it, or send the others alone")
    return schema.batch(records)


def _text(column: str, value: Any, bag: Category | None, is_number: bool) -> str:
    """What would stand in a file."""
    if isinstance(value, list) and bag is not None and bag.separator is not None:
        parts = [_text(column, one, None, is_number) for one in value]
        if odd := [part for part in parts if bag.separator in part]:
            raise UsageError(
                f"column {column!r} has {odd[0]!r:.80} in a list, which has its separator; send two values"
            )
        return bag.separator.join(parts)
    if value is None:
        return ""
    if type(value) is int or (is_number and type(value) is float):
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
