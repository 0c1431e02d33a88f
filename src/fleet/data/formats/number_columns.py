"""Numbers as a schema wants them, in the column's dtype and gaps filled; columns and bags as matrices.

A number that the dtype cannot hold without losing what matters is a bad row, as csrc/data/rounding.h has it for text.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.data.columns.blocks import BadRows
from fleet.data.columns.schema import Number

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
ROWS_AT_A_TIME = 2048
"""So many rows stay in a core's cache while one column after the other is written into them."""
_REMEDY = "declare it with dtype='float64' or 'int64', or 'float32' to have it rounded"


class Numbers(NamedTuple):
    """Numbers of any dtype, from row `first` on, and which of them are gaps (None: none)."""

    first: int
    found: Array
    gaps: Mask | None


def number_column(role: str, one: Number, parts: Iterable[Numbers], num: int, bad: BadRows) -> Array:
    """The column of `num` rows. `role`: a "column" may have gaps; a "label" and a "weight" may not."""
    column = np.empty(num, dtype=one.dtype or "float32")
    for first, found, gaps in parts:
        out = column[first : first + len(found)]
        with np.errstate(over="ignore", invalid="ignore"):
            wrong = {"float64": _to_float64, "int64": _to_int64}.get(column.dtype.name, _to_float32)(one, found, out)
        if gaps is not None:
            if role == "column":
                out[gaps] = one.missing if one.dtype != "int64" else int(one.missing)
                wrong &= ~gaps
            else:
                wrong |= gaps
        if wrong.any():
            places = np.flatnonzero(wrong)
            bad.add(places + first, _Reason(role, one, found[places], None if gaps is None else gaps[places]))
    return column


def _to_float32(one: Number, found: Array, out: Array) -> Mask:
    out[:] = _native.signed_log(np.ascontiguousarray(found, dtype=np.float64)) if one.log else found
    wrong: Mask = ~np.isfinite(out)
    if one.log or one.dtype == "float32" or found.dtype.itemsize <= 2 or found.dtype == np.float32:
        return wrong
    size = np.abs(found)
    if (is_large := (size > 2.0**24) & (size < 2.0**63)).any():
        wrong |= is_large & (np.abs(out.astype(np.float64) - found) >= 0.5)
    return wrong


def _to_float64(_: Number, found: Array, out: Array) -> Mask:
    out[:] = found
    is_whole = found.dtype.kind in "iu"
    wrong: Mask = (np.abs(out) >= 2.0**53) & (out.astype(found.dtype) != found) if is_whole else ~np.isfinite(out)
    return wrong


def _to_int64(_: Number, found: Array, out: Array) -> Mask:
    if found.dtype.kind != "f":
        out[:] = found
        return (
            np.asarray(found > np.uint64((1 << 63) - 1)) if found.dtype == np.uint64 else np.zeros(len(found), np.bool_)
        )
    wrong: Mask = ~((np.abs(found) < 2.0**53) & (np.trunc(found) == found))
    out[:] = np.where(wrong, 0, found)
    return wrong


class _Reason:
    """What is wrong with a number."""

    def __init__(self, role: str, one: Number, found: Array, gaps: Mask | None) -> None:
        self._name, self._role, self._dtype = f"{role} {one.name!r}", role, one.dtype or "float32"
        self._found, self._gaps = found, gaps

    def __call__(self, place: int) -> str:
        value = self._found[place]
        if (self._gaps is not None and self._gaps[place]) or np.isnan(value):
            return f"{self._name} is empty"
        if self._dtype == "int64":
            return f"{self._name} has {value}, which is no int64"
        with np.errstate(over="ignore"):
            made = np.dtype(self._dtype).type(value)
        if not np.isfinite(made):
            return f"{self._name} has {value}, which {self._dtype} cannot hold"
        if self._dtype == "float64":
            return f"{self._name} has {value}, which float64 would round (int64 holds it)"
        remedy = _REMEDY if self._role == "column" else "scale it"
        return f"{self._name} has {value}, which float32 would make {made:.0f} ({remedy})"


def matrix_of(values: Array, offsets: Array, length: int, padding: int) -> Array:
    """The last `length` values of each bag, filled up behind them."""
    counts = np.minimum(np.diff(offsets), length)
    matrix = np.full((len(counts), length), padding, dtype=np.int64)
    steps = np.arange(length)
    is_filled = steps < counts[:, None]
    matrix[is_filled] = values[((offsets[1:] - counts)[:, None] + steps)[is_filled]]
    return matrix


def side_by_side(columns: Sequence[Array], num: int, dtype: npt.DTypeLike) -> Array:
    """[num, columns], row by row in memory."""
    matrix = np.empty((num, len(columns)), dtype=dtype)
    for first in range(0, num, ROWS_AT_A_TIME):
        part = matrix[first : first + ROWS_AT_A_TIME]
        for place, column in enumerate(columns):
            part[:, place] = column[first : first + ROWS_AT_A_TIME]
    return matrix
