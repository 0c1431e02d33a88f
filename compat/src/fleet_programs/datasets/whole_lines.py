"""Lines that are batches (`input_type` 1): each slot of a line has the values of all samples, not of one.

What a line has of a dense slot fills its shape once for each sample; of a ragged slot each sample has one value.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fleet.data.columns.records import BySlot, DataSlot, Ragged
from fleet.errors import NotReadyError, UsageError


def as_ragged(slots: Sequence[DataSlot]) -> tuple[DataSlot, ...]:
    """The slots as such lines are read: each has as many values as it likes."""
    return tuple(replace(slot, shape=None) for slot in slots)


def whole_lines(batches: Iterator[BySlot], slots: Sequence[DataSlot]) -> Iterator[BySlot]:
    """Batches of one line each, with the shapes that the slots have; the iterator behind ends with this one."""
    with closing(cast("Generator[BySlot, None, None]", batches)):  # `_part` gives generators
        for batch in batches:
            yield {slot.name: _samples(slot, batch[slot.name]) for slot in slots}


def _samples(slot: DataSlot, line: npt.NDArray[Any] | Ragged) -> npt.NDArray[Any] | Ragged:
    if not isinstance(line, Ragged):
        raise NotReadyError("the records were read a sample in a line; set input_type before load_into_memory()")
    if slot.shape is None:
        return Ragged(line.values, np.arange(len(line.values) + 1))
    width = math.prod(slot.shape)
    if len(line.values) % width:
        raise UsageError(
            f"slot {slot.name!r}: a line has {len(line.values)} values, and a sample takes {width}; input_type 1 takes "
            "whole samples"
        )
    return line.values.reshape(-1, *slot.shape)
