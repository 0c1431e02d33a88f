"""The derived columns of a schema: computed, and turned into numbers and ids by the same rules as a file's columns.

A gap is NaN or the empty text, since arrays have no others; floats that are whole numbers stand for these.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.data.columns.blocks import BadRows
from fleet.data.columns.derived import TIME_UNITS, Derived
from fleet.data.columns.schema import Category, Schema
from fleet.data.formats.hashing import hash_numbers, hash_texts
from fleet.data.formats.number_columns import Numbers
from fleet.data.formats.times import of_numbers, times_of
from fleet.errors import UsageError

Array = npt.NDArray[Any]
Read = Callable[[str, str], Array]
"""A column of the file by its name and how it is given: texts, float64 with NaN for gaps, or what times are made of."""


def derived_columns(schema: Schema, num: int, read: Read, bad: BadRows) -> dict[str, Array]:
    """The values of every derived column of `num` rows. Rows with a time that is none are bad."""
    made: dict[str, Array] = {}
    inputs: dict[tuple[str, str], Array] = {}
    for one in schema.derived:
        for name, kind in one.of.items():
            if (name, kind) not in inputs:
                found = _as_input(one, name, kind, made[name]) if name in made else read(name, kind)
                if kind in TIME_UNITS:
                    found = _as_times(name, kind, found, bad)
                inputs[name, kind] = found
        made[one.name] = _called(one, num, [inputs[column] for column in one.of.items()])
    return made


def _called(one: Derived, num: int, given: list[Array]) -> Array:
    try:
        found = np.asarray(one.function(*given))
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise UsageError(
            f"the function of derived column {one.name!r} failed: {type(error).__name__}: {said}; it is given arrays"
        ) from error
    if found.shape != (num,):
        raise UsageError(
            f"the function of derived column {one.name!r} must give one value for each of {num:,} rows, got shape "
            f"{list(found.shape)}"
        )
    if found.dtype.kind in "UST":
        found = found.astype(object)
    if found.dtype.kind not in "biufO":
        raise UsageError(
            f"the function of derived column {one.name!r} must give numbers or texts, got {found.dtype}; a time as its "
            "seconds"
        )
    return found


def _as_input(one: Derived, name: str, kind: str, made: Array) -> Array:
    """A derived column, given to a function."""
    if kind == "text":
        return texts_of(name, made)
    if made.dtype == object:
        if kind in TIME_UNITS:
            return made
        raise UsageError(f"derived column {one.name!r} takes {name!r} as {kind!r}; its function must give numbers")
    return made.astype(np.float64)


def _as_times(name: str, kind: str, found: Array, bad: BadRows) -> Array:
    if found.dtype.kind == "M":
        return found
    convert = times_of if found.dtype == object else of_numbers
    times, wrong = convert(found, TIME_UNITS[kind])
    if wrong.any():
        rows = np.flatnonzero(wrong)
        bad.add(rows, lambda place: f"column {name!r} has {_no_time(str(found[rows[place]]), kind)}")
    return times


def _no_time(text: str, kind: str) -> str:
    shown, unit = f"{text[:40]!r}, which is no time", kind.removeprefix("time").strip("[]") or "s"
    return f"{shown} before the year 10,000 in {unit}: say which unit it has" if text.isdecimal() else shown


def whole_numbers(name: str, values: Array) -> tuple[Array, Array | None]:
    """Whole numbers of a derived column, and which are gaps."""
    if values.dtype.kind in "biu":
        return values if values.dtype.kind == "u" else values.astype(np.int64), None
    gaps = np.isnan(values)
    plain = np.where(gaps, 0, values)
    if (is_odd := ~((np.abs(plain) < 2.0**53) & (np.trunc(plain) == plain))).any():
        odd = plain[is_odd][0]
        raise UsageError(f"derived column {name!r} has {odd:g}, and a category needs whole numbers or texts: round it")
    return plain.astype(np.int64), gaps if gaps.any() else None


def texts_of(name: str, values: Array) -> Array:
    """Texts of a derived column, as a category has them."""
    if values.dtype == object:
        return values
    whole, gaps = whole_numbers(name, values)
    texts = whole.astype("U20").astype(object)
    if gaps is not None:
        texts[gaps] = ""
    return texts


def numbers_of(name: str, values: Array) -> Numbers:
    """Numbers of a derived column."""
    if values.dtype == object:
        raise UsageError(f"derived column {name!r} has texts, and a number needs numbers; read it as a category")
    if values.dtype.kind == "b":
        values = values.astype(np.int8)
    gaps = np.isnan(values) if values.dtype.kind == "f" else None
    return Numbers(0, values, gaps if gaps is not None and gaps.any() else None)


def ids_of(values: Array, one: Category, bad: BadRows) -> Array:
    """The ids of a derived column."""
    gaps: Array | None
    empty = hash_texts(one.hashed_as, np.empty(0, np.uint8), np.zeros(2, np.int64))[0]
    if one.bounds is not None:
        _, numbers, gaps = numbers_of(one.name, values)
        parts = hash_numbers(one.hashed_as, np.arange(len(one.bounds) + 1, dtype=np.int64))
        made = parts[np.searchsorted(np.asarray(one.bounds), numbers, side="right")]
        bad.add(np.flatnonzero(np.isinf(numbers)), lambda _: f"column {one.name!r} has inf, which is no number")
    elif values.dtype == object:
        if not one.hash:
            raise UsageError(f"derived column {one.name!r} has texts, and hash=False needs whole numbers")
        return hash_texts(one.hashed_as, *_joined(one.name, values))
    else:
        whole, gaps = whole_numbers(one.name, values)
        if one.hash:
            made = hash_numbers(one.hashed_as, whole)
        else:
            made = whole.astype(np.int64)
            bad.add(
                np.flatnonzero(whole > (1 << 63) - 1), lambda _: f"column {one.name!r} has more than an int64 holds"
            )
            if gaps is not None and one.missing is None:
                bad.add(np.flatnonzero(gaps), lambda _: empty_id(one.name))
    if gaps is not None:
        made[gaps] = empty if one.hash else one.missing or 0
    return made


def empty_id(name: str) -> str:
    """What is said of a gap where the schema has no id for it."""
    return f"column {name!r} is empty (its missing= says which id a gap is)"


def _joined(name: str, texts: Array) -> tuple[Array, Array]:
    """The bytes of all texts, and where each begins and ends."""
    try:
        whole = np.frombuffer("\0".join(texts.tolist()).encode(errors="surrogateescape"), dtype=np.uint8)
    except TypeError as error:
        raise UsageError(f"the function of derived column {name!r} must give numbers or texts: {error}") from error
    ends = np.flatnonzero(whole == 0)
    if len(ends) != max(len(texts) - 1, 0):
        raise UsageError(f"derived column {name!r} has a text with a zero byte; leave it out")
    ends = np.append(ends, len(whole)) if len(texts) else ends
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    offsets[1:] = ends - np.arange(len(texts))
    return whole[whole != 0], offsets
