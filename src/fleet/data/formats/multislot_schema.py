"""What the slots of MultiSlot text mean, so that its files become the same batches as others.

schema = fleet.data.MultiSlot(
    ["click", fleet.data.Slot("price", floats=2), fleet.data.Slot("user", width=1), "tags"], label="click"
)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.data.columns.checks import count_of
from fleet.data.columns.schema import Category, Number, Schema
from fleet.data.columns.slots import DataSlot
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


def _slot(given: object, single: set[str]) -> Slot:
    if isinstance(given, Slot):
        return given
    if not isinstance(given, str) or not given:
        raise UsageTypeError(f"a slot is a name or a fleet.data.Slot, got {given!r}")
    return Slot(given, floats=1 if given in single else None)
