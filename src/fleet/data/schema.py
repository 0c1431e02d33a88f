"""What the columns of a file mean: label, numbers, categories; and how records of them become a batch.

schema = fleet.data.Schema(
    label="click",
    numbers=["age", fleet.data.Number("price", log=True)],
    categories=["user", "item", fleet.data.Category("tags", separator=",")],
)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from fleet.data.batch import Batch, SlotValues
from fleet.data.records import Records
from fleet.data.slots import DataSlot
from fleet.errors import UsageError, UsageTypeError


@dataclass(frozen=True)
class Number:
    """A column of numbers. With `log`, x becomes sign(x) * log(1 + |x|); a gap becomes `missing`, as it is."""

    name: str
    log: bool = False
    missing: float = 0.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.missing):
            raise UsageError(f"missing of column {self.name!r} must be finite, got {self.missing}")


@dataclass(frozen=True)
class Category:
    """A column of categories. The id of a value is a hash of the slot and the value's text; a gap is a value too.

    `hash=False`: values are whole numbers, and ids as they are; a gap is `padding`. `bounds`: values are numbers, and
    the id is that of the part between two bounds (ascending) that a number lies in: of the place of the part as text,
    which is the number of bounds that are not above the number. `slot`: hash as that slot does, so that two columns
    name the same things. With `separator` a sample has any number of values, gaps not counted: a bag, or with `length`
    a matrix whose rows are filled up with `padding`, and keep the last `length` values of those that are longer.
    """

    name: str
    hash: bool = True
    bounds: tuple[float, ...] | None = None
    slot: str | None = None
    separator: str | None = None
    length: int | None = None
    padding: int = 0

    def __post_init__(self) -> None:
        if self.bounds is not None:
            bounds = tuple(map(float, self.bounds))
            if not bounds or any(not a < b for a, b in pairwise(bounds)):
                raise UsageError(f"bounds of column {self.name!r} must be ascending numbers, got {list(bounds)}")
            object.__setattr__(self, "bounds", bounds)
        if self.bounds is not None and not self.hash:
            raise UsageError(f"column {self.name!r} has bounds and hash=False; leave one of them out")
        if self.separator is not None and len(self.separator.encode()) != 1:
            raise UsageError(f"separator of column {self.name!r} must be one byte, got {self.separator!r}")
        if self.length is not None and self.length < 1:
            raise UsageError(f"length of column {self.name!r} must be at least 1, got {self.length}")

    @property
    def has_several(self) -> bool:
        """Whether a sample may have more values than one."""
        return self.separator is not None or self.length is not None

    @property
    def hashed_as(self) -> str:
        """The name that goes into the hash."""
        return self.slot or self.name


def _named(kind: type[Any], given: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageTypeError(f"a schema takes a list of columns, got {given!r}")
    return tuple(one if isinstance(one, kind) else kind(one) for one in given)


@dataclass(frozen=True)
class Schema:
    """The columns that are read, by name. Files may have others, which are passed over.

    `columns` are the names of a text file's columns, in order; None: its first line has them (`header`), or the format
    knows them, as Parquet does. Names stand in a batch in the order of this schema. `quotes`: fields of text may stand
    in double quotes; None: where the delimiter is a comma.
    """

    label: str | Sequence[str] | None = None
    numbers: Sequence[str | Number] = ()
    categories: Sequence[str | Category] = ()
    weight: str | None = None
    columns: Sequence[str] | None = None
    delimiter: str = "\t"
    header: bool = False
    quotes: bool | None = None
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        given = () if self.label is None else (self.label,) if isinstance(self.label, str) else tuple(self.label)
        object.__setattr__(self, "labels", given)
        object.__setattr__(self, "numbers", _named(Number, self.numbers))
        object.__setattr__(self, "categories", _named(Category, self.categories))
        object.__setattr__(self, "columns", None if self.columns is None else tuple(self.columns))
        if len(self.delimiter.encode()) != 1:
            raise UsageError(f"delimiter must be one byte, got {self.delimiter!r}")
        if self.delimiter in ("\n", "\r") or (self.has_quotes and self.delimiter == '"'):
            raise UsageError(f"delimiter must not be {self.delimiter!r}, which ends lines or quotes fields")
        slots = [one.name for one in self.all_categories if one.has_several]
        if wrong := {"label", "dense", "ids", "weight"} & set(slots):
            raise UsageError(f"a slot cannot be called {min(wrong)!r}, which is a part of every batch")
        names = [one.name for one in self.all_categories]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"category {twice[0]!r} stands twice in the schema")
        if not (self.labels or self.numbers or self.categories):
            raise UsageError("the schema has no columns; name a label, numbers or categories")
        if self.columns is not None and (missing := [name for name in self.names if name not in self.columns]):
            raise UsageError(f"the schema reads column {missing[0]!r}, which is not among columns={list(self.columns)}")

    @property
    def has_quotes(self) -> bool:
        """Whether fields of text may stand in quotes."""
        return self.delimiter == "," if self.quotes is None else self.quotes

    @property
    def all_numbers(self) -> tuple[Number, ...]:
        """`numbers`, all of them as declarations."""
        return tuple(self.numbers)  # type: ignore[arg-type]

    @property
    def all_categories(self) -> tuple[Category, ...]:
        """`categories`, all of them as declarations."""
        return tuple(self.categories)  # type: ignore[arg-type]

    @property
    def single(self) -> tuple[Category, ...]:
        """The categories with one value a sample: the columns of a batch's `ids`."""
        return tuple(one for one in self.all_categories if not one.has_several)

    @property
    def several(self) -> tuple[Category, ...]:
        """Those with several: a batch's `slots`."""
        return tuple(one for one in self.all_categories if one.has_several)

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read."""
        weight = () if self.weight is None else (self.weight,)
        numbers, categories = [one.name for one in self.all_numbers], [one.name for one in self.all_categories]
        return tuple(dict.fromkeys((*self.labels, *numbers, *categories, *weight)))

    @property
    def layout(self) -> tuple[DataSlot, ...]:
        """The columns of the records that a format makes of this schema: what is not declared is not there."""
        slots = []
        if self.labels:
            slots.append(DataSlot("label", "float32", (len(self.labels),)))
        if self.numbers:
            slots.append(DataSlot("dense", "float32", (len(self.numbers),)))
        if self.single:
            slots.append(DataSlot("ids", "int64", (len(self.single),)))
        if self.weight is not None:
            slots.append(DataSlot("weight", "float32", (1,)))
        bags = [DataSlot(one.name, "int64", None if one.length is None else (one.length,)) for one in self.several]
        return (*slots, *bags)

    def batch(self, records: Records) -> Batch:
        """Records of `layout` as a batch, without a copy where their memory is in one piece."""
        made = records.batch()

        def tensor(name: str, dtype: Any) -> torch.Tensor:
            values = made.get(name)
            if values is None:
                return torch.from_numpy(np.empty((records.num, 0), dtype=dtype))
            return torch.from_numpy(np.ascontiguousarray(values))

        label = tensor("label", np.float32)
        slots: dict[str, SlotValues] = {}
        for one in self.several:
            found: Any = made[one.name]
            if one.length is None:
                slots[one.name] = torch.from_numpy(found.values.reshape(-1)), torch.from_numpy(found.offsets)
            else:
                slots[one.name] = torch.from_numpy(np.ascontiguousarray(found))
        return Batch(
            label=label.squeeze(1) if len(self.labels) == 1 else label,
            dense=tensor("dense", np.float32),
            ids=tensor("ids", np.int64),
            slots=slots,
            weight=None if self.weight is None else tensor("weight", np.float32).squeeze(1),
        )


def criteo(*, log: bool = True) -> Schema:
    """Criteo's click logs: a label, 13 counts with gaps, 26 categories in hexadecimal, separated by tabs."""
    numbers = [f"I{number}" for number in range(1, 14)]
    categories = [f"C{number}" for number in range(1, 27)]
    return Schema(
        label="label",
        numbers=[Number(name, log=log) for name in numbers],
        categories=categories,
        columns=["label", *numbers, *categories],
    )
