"""What the columns of a file mean: label, numbers, categories; and how records of them become a batch.

schema = fleet.data.Schema(
    label="click",
    numbers=["age", fleet.data.Number("price", log=True)],
    categories=["user", "item", fleet.data.Category("tags", separator=",")],
)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from fleet.checks import count_of, flag_of, name_of
from fleet.data.columns.derived import Derived, checked
from fleet.data.columns.records import Batch, DataSlot, Records, SlotValues
from fleet.data.columns.schema_form import PlainColumns
from fleet.errors import UsageError, UsageTypeError

NUMBER_TYPES = ("float32", "float64", "int64")
MOST_LENGTH = 1 << 20
"""The longest row of a matrix: each sample takes that much memory, whatever it holds."""


@dataclass(frozen=True)
class Number:
    """A column of numbers. With `log`, x becomes sign(x) * log(1 + |x|); a gap becomes `missing`, as it is.

    Numbers stand in `Batch.dense`, in float32. One beyond 2^24 whose whole part float32 does not keep, such as a time
    in seconds, is refused; `dtype="float32"` says that rounding is right. With `dtype="float64"` or `"int64"` the
    column stands in `Batch.numbers`, by its name.
    """

    name: str
    log: bool = False
    missing: float = 0.0
    dtype: str | None = None

    def __post_init__(self) -> None:
        name_of("the name of a number", self.name)
        flag_of(f"log of column {self.name!r}", self.log)
        if isinstance(self.missing, bool) or not isinstance(self.missing, int | float):
            raise UsageTypeError(f"missing of column {self.name!r} must be a number, got {self.missing!r}")
        if self.dtype not in (None, *NUMBER_TYPES):
            types = ", ".join(map(repr, NUMBER_TYPES))
            raise UsageError(f"dtype of column {self.name!r} must be one of {types}, got {self.dtype!r}")
        if self.log and self.is_wide:
            raise UsageError(f"column {self.name!r} has log and dtype={self.dtype!r}; a logarithm is a float32")
        if self.dtype == "int64":
            if not -(1 << 63) <= self.missing < 1 << 63 or self.missing != int(self.missing):
                raise UsageError(f"missing of column {self.name!r} must be an int64, as its dtype, got {self.missing}")
        elif not abs(self.missing) <= float(np.finfo(self.dtype or "float32").max):
            kind = self.dtype or "float32"
            raise UsageError(f"missing of column {self.name!r} must be finite as a {kind}, got {self.missing}")

    @property
    def is_wide(self) -> bool:
        """Whether float32 cannot hold it, so that it is no part of `dense`."""
        return self.dtype in ("float64", "int64")


@dataclass(frozen=True)
class Category:
    """A column of categories. The id of a value is a hash of the slot and the value's text; a gap is a value too.

    `hash=False`: values are whole numbers, and ids as they are; a gap is `missing`, and an error without it. `bounds`:
    values are numbers, and the id is that of the part between two bounds (ascending) that a number lies in: of the
    place of the part as text, which is the number of bounds that are not above the number. `slot`: hash as that slot
    does, so that two columns name the same things. With `separator` a sample has any number of values, gaps not
    counted: a bag, or with `length` a matrix whose rows are filled up with `padding`, and keep the last `length` values
    of those that are longer.
    """

    name: str
    hash: bool = True
    bounds: tuple[float, ...] | None = None
    slot: str | None = None
    separator: str | None = None
    length: int | None = None
    padding: int = 0
    missing: int | None = None

    def __post_init__(self) -> None:
        name_of("the name of a category", self.name)
        flag_of(f"hash of column {self.name!r}", self.hash)
        if self.slot is not None:
            name_of(f"slot of column {self.name!r}", self.slot)
        if self.bounds is not None:
            try:
                bounds = tuple(map(float, self.bounds))
            except (TypeError, ValueError) as error:
                raise UsageTypeError(
                    f"bounds of column {self.name!r} must be ascending numbers, got {self.bounds!r}"
                ) from error
            if not bounds or any(not a < b for a, b in pairwise(bounds)):
                raise UsageError(f"bounds of column {self.name!r} must be ascending numbers, got {list(bounds)}")
            object.__setattr__(self, "bounds", bounds)
        if self.bounds is not None and not self.hash:
            raise UsageError(f"column {self.name!r} has bounds and hash=False; leave one of them out")
        if self.separator is not None:
            _byte(f"separator of column {self.name!r}", self.separator)
        if self.length is not None and count_of(f"length of column {self.name!r}", self.length) > MOST_LENGTH:
            raise UsageError(f"length of column {self.name!r} must be at most {MOST_LENGTH:,}, got {self.length}")
        count_of(f"padding of column {self.name!r}", self.padding, least=-(1 << 63))
        if self.padding >= 1 << 63:
            raise UsageError(f"padding of column {self.name!r} must be an int64, got {self.padding}")
        if self.padding and self.length is None:
            instead = "leave it out" if self.hash or self.has_several else "say what a gap is with missing="
            raise UsageError(f"column {self.name!r} has nothing to fill up with padding; give length=, or {instead}")
        if self.missing is not None:
            if count_of(f"missing of column {self.name!r}", self.missing, least=-(1 << 63)) >= 1 << 63:
                raise UsageError(f"missing of column {self.name!r} must be an int64, got {self.missing}")
            if self.hash or self.has_several:
                why = "leaves gaps out" if self.has_several else "is hashed, and a gap is a value of its own"
                raise UsageError(f"column {self.name!r} {why}; missing= is for hash=False with one value: leave it out")
        if self.slot is not None and not self.hash:
            raise UsageError(f"column {self.name!r} has hash=False and a slot to hash as; leave one of them out")

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
    if wrong := [one for one in given if not isinstance(one, str | kind)]:
        raise UsageTypeError(f"a column is named by text or a fleet.data.{kind.__name__}, got {wrong[0]!r}")
    return tuple(one if isinstance(one, kind) else kind(one) for one in given)


def _byte(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageTypeError(f"{what} must be a text of one byte, got {value!r}")
    if len(value.encode()) != 1:
        raise UsageError(f"{what} must be one byte, got {value!r}")
    if value in ("\n", "\r"):
        raise UsageError(f"{what} must not be {value!r}, which ends lines")
    return value


def _names(what: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageTypeError(f"{what} must be a list of names, got {given!r}")
    return tuple(name_of(f"a name of {what}", one) for one in given)


def _texts(what: str, given: Any) -> tuple[str, ...]:
    """Names as files have them: one that is not read may be empty."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
        raise UsageTypeError(f"{what} must be a list of names, got {given!r}")
    return tuple(given)


def _gaps(given: Any, delimiter: str) -> tuple[str, ...]:
    for one in (gaps := _names("na_values", given)):
        if any(end in one for end in ("\n", "\r", delimiter)):
            raise UsageError(
                f"na_values has {one!r}, which no field can hold; it must be without delimiters and ends of lines"
            )
    return gaps


@dataclass(frozen=True)
class Schema(PlainColumns):
    """The columns that are read, by name. Files may have others, which are passed over.

    `columns` are the names of a text file's columns, in order; None: its first line has them (`header`), or the format
    knows them, as Parquet does. Names stand in a batch in the order of this schema. `quotes`: fields of text may stand
    in double quotes; None: where the delimiter is a comma. `na_values`: texts that are gaps, as an empty one is, in
    every column of text. `derived`: columns that are computed, and then read as others are.
    """

    label: str | Sequence[str] | None = None
    numbers: Sequence[str | Number] = ()
    categories: Sequence[str | Category] = ()
    weight: str | None = None
    columns: Sequence[str] | None = None
    delimiter: str = "\t"
    header: bool = False
    quotes: bool | None = None
    na_values: Sequence[str] = ()
    derived: Sequence[Derived] = ()
    labels: tuple[str, ...] = field(init=False)
    PARTS = (Number, Category)

    def __post_init__(self) -> None:
        label = [self.label] if isinstance(self.label, str) else self.label
        given = () if label is None else _names("label", label)
        object.__setattr__(self, "labels", given)
        object.__setattr__(self, "numbers", _named(Number, self.numbers))
        object.__setattr__(self, "categories", _named(Category, self.categories))
        object.__setattr__(self, "columns", None if self.columns is None else _texts("columns", self.columns))
        flag_of("header", self.header)
        object.__setattr__(self, "na_values", _gaps(self.na_values, self.delimiter))
        object.__setattr__(self, "derived", checked(self.derived))
        if self.quotes is not None:
            flag_of("quotes", self.quotes)
        if self.weight is not None:
            name_of("weight", self.weight)
        if _byte("delimiter", self.delimiter) == '"' and self.has_quotes:
            raise UsageError(f"delimiter must not be {self.delimiter!r}, which quotes fields")
        slots = [*(one.name for one in self.several), *(one.name for one in self.wide)]
        if wrong := {"label", "dense", "ids", "weight"} & set(slots):
            raise UsageError(f"a slot cannot be called {min(wrong)!r}, which is a part of every batch")
        features = {*(one.name for one in self.all_numbers), *(one.name for one in self.all_categories)}
        if given_away := features.intersection(self.labels):
            raise UsageError(
                f"label {min(given_away)!r} is also a number or a category, which tells the model the answer; leave it "
                "out there"
            )
        numbers = list(self.all_numbers)
        if twice := [one.name for one in numbers if numbers.count(one) > 1]:
            raise UsageError(f"number {twice[0]!r} stands twice in the schema; leave one out")
        names = [one.name for one in self.all_categories]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"category {twice[0]!r} stands twice in the schema")
        if twice := [name for name in slots if slots.count(name) > 1]:
            raise UsageError(
                f"column {twice[0]!r} has more than one place in a batch's slots and numbers; leave one out"
            )
        computed = {one.name for one in self.derived}
        if wrong := computed & {one.name for one in self.several}:
            raise UsageError(f"derived column {min(wrong)!r} has one value a sample; leave separator and length out")
        if unused := computed - set(self._used) - {name for one in self.derived for name in one.of}:
            raise UsageError(f"derived column {min(unused)!r} is not read; name it among numbers or categories")
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
        """The categories with several values a sample: a batch's `slots`."""
        return tuple(one for one in self.all_categories if one.has_several)

    @property
    def narrow(self) -> tuple[Number, ...]:
        """The numbers that float32 holds: the columns of a batch's `dense`."""
        return tuple(one for one in self.all_numbers if not one.is_wide)

    @property
    def wide(self) -> tuple[Number, ...]:
        """The others: a batch's `numbers`."""
        return tuple(one for one in self.all_numbers if one.is_wide)

    @property
    def _used(self) -> tuple[str, ...]:
        weight = () if self.weight is None else (self.weight,)
        numbers, categories = [one.name for one in self.all_numbers], [one.name for one in self.all_categories]
        return tuple(dict.fromkeys((*self.labels, *numbers, *categories, *weight)))

    @property
    def names(self) -> tuple[str, ...]:
        """Every column of a file that is read."""
        computed = {one.name for one in self.derived}
        inputs = [name for one in self.derived for name in one.of]
        return tuple(name for name in dict.fromkeys((*self._used, *inputs)) if name not in computed)

    @property
    def layout(self) -> tuple[DataSlot, ...]:
        """The columns of the records that a format makes of this schema: what is not declared is not there."""
        slots = []
        if self.labels:
            slots.append(DataSlot("label", "float32", (len(self.labels),)))
        if self.narrow:
            slots.append(DataSlot("dense", "float32", (len(self.narrow),)))
        if self.single:
            slots.append(DataSlot("ids", "int64", (len(self.single),)))
        if self.weight is not None:
            slots.append(DataSlot("weight", "float32", (1,)))
        bags = [DataSlot(one.name, "int64", None if one.length is None else (one.length,)) for one in self.several]
        return (*slots, *(DataSlot(one.name, str(one.dtype), (1,)) for one in self.wide), *bags)

    def file_format(self) -> Any:
        """The `FileFormat` that all files of this schema have; None: each that of its name."""
        return None

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
            numbers={one.name: tensor(one.name, one.dtype).squeeze(1) for one in self.wide},
        )


def criteo(*, log: bool = True) -> Schema:
    """Criteo's click logs: a label, 13 counts with gaps, 26 categories in hexadecimal, separated by tabs."""
    numbers = [f"I{number}" for number in range(1, 14)]
    categories = [f"C{number}" for number in range(1, 27)]
    return Schema(
        label="label",
        numbers=[Number(name, log=log, dtype="float32") for name in numbers],
        categories=categories,
        columns=["label", *numbers, *categories],
    )
