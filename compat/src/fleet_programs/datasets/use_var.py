"""The slots of a dataset: what `use_var` says about each column of its records."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

from fleet.data.columns.records import SLOT_TYPES, DataSlot
from fleet.errors import NotSupportedError, UsageError, UsageTypeError


class Var(Protocol):
    """What a dataset looks at in a variable of a program; any object with these four will do."""

    @property
    def name(self) -> str:
        """What the slot is called."""

    @property
    def dtype(self) -> Any:
        """`float32`, `float64` or `int64`, as text."""

    @property
    def shape(self) -> Sequence[int]:
        """The batch first, as -1; then what each record has."""

    @property
    def lod_level(self) -> int:
        """0: dense, each record fills the shape. 1: ragged, each record has as many values as it likes."""


def slots_of(use_var: Sequence[Var]) -> tuple[DataSlot, ...]:
    """The slots that variables declare, in their order."""
    given: object = use_var
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageTypeError(f"use_var must be a list of variables, got {type(given).__name__}")
    slots = tuple(_slot_of(var, place) for place, var in enumerate(given))
    names = [slot.name for slot in slots]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"use_var has {twice[0]!r} more than once; a line has one place for each slot")
    return slots


def _slot_of(var: Any, place: int) -> DataSlot:
    if missing := [part for part in ("name", "dtype", "shape", "lod_level") if not hasattr(var, part)]:
        raise UsageTypeError(
            f"use_var[{place}] must be a variable with name, dtype, shape and lod_level, got {type(var).__name__} "
            f"without {missing[0]}"
        )
    name, dtype, level = var.name, var.dtype, var.lod_level
    if not isinstance(name, str) or not name:
        raise UsageTypeError(f"the name of use_var[{place}] must be text, got {name!r}")
    if dtype not in SLOT_TYPES:
        raise NotSupportedError(
            f"slot {name!r} has dtype {dtype}; a dataset reads {', '.join(SLOT_TYPES)}: declare one of them and cast"
        )
    shape = tuple(var.shape)
    if not shape or shape[0] not in (-1, None) or any(not isinstance(size, int) or size < 1 for size in shape[1:]):
        raise UsageError(
            f"slot {name!r} has shape {list(shape)}; it must begin with -1 for the batch, and the rest must be known"
        )
    if level == 0:
        return DataSlot(name, dtype, shape[1:])
    if level != 1:
        raise NotSupportedError(f"slot {name!r} has lod_level {level}; a line can hold level 0 (dense) or 1 (ragged)")
    if math.prod(shape[1:]) != 1:
        raise UsageError(f"slot {name!r} is ragged and has shape {list(shape)}; its values are single: give [-1, 1]")
    return DataSlot(name, dtype, None)
