"""Values of Arrow arrays as numpy ones, without a Python object for any of them.

Numbers become floats with NaN for gaps; categories become ids as `fleet.data.Category` says, by the same rules as text.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.data.columns.schema import Category
from fleet.data.formats.arrow_types import is_list, is_text, value_type
from fleet.data.formats.hashing import hash_numbers, hash_texts
from fleet.data.places.urls import needed

Floats = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass
class Values:
    """Ids of an array; which of them are gaps, and which cannot be used. None: none."""

    ids: Ids
    gaps: Mask | None = None
    wrong: Mask | None = None


def floats(array: Any) -> Floats:
    """Numbers of any type, with NaN for gaps; as wide as they are stored."""
    pa = needed("pyarrow", "Arrow columns")
    array = _decoded(array)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_decimal(array.type) or pa.types.is_null(array.type):
        array = array.cast(pa.float64())
    found: Floats = array.to_numpy(zero_copy_only=False)
    return found


def numbers_in(array: Any) -> tuple[Floats, Mask | None]:
    """Numbers of any type as they are stored, and which are gaps: nulls, and NaN."""
    pa, pc = needed("pyarrow", "Arrow columns"), needed("pyarrow.compute", "Arrow columns")
    array = _decoded(array)
    gaps = _gaps(array)
    if gaps is not None and pa.types.is_integer(array.type):
        return pc.fill_null(array, 0).to_numpy(), gaps  # whole, where NaN would make floats of them
    found = floats(array)
    if found.dtype.kind == "f" and (is_nan := np.isnan(found)).any():
        gaps = is_nan
    return found, gaps


def with_gaps(array: Any, texts: Sequence[str]) -> Any:
    """The same with nulls for those texts; what is no text stays as it is."""
    pa, pc = needed("pyarrow", "Arrow columns"), needed("pyarrow.compute", "Arrow columns")
    plain = value_type(array.type)
    if not texts or not is_text(plain) or pa.types.is_null(plain):
        return array
    array = _as_text(_decoded(array))
    return pc.if_else(pc.is_in(array, pa.array(list(texts)).cast(array.type)), pa.scalar(None, array.type), array)


def input_of(array: Any, kind: str) -> Any:
    """A column of texts or times for a function of a derived one; times may be numbers or texts."""
    pa, pc = needed("pyarrow", "Arrow columns"), needed("pyarrow.compute", "Arrow columns")
    array = _decoded(array)
    types, found = pa.types, array.type
    if is_text(found):
        if types.is_null(found):
            return np.full(len(array), "", dtype=object)
        text = array if types.is_string(found) or types.is_large_string(found) else array.cast(pa.large_binary())
        made = pc.fill_null(text, "").to_numpy(zero_copy_only=False)
        if text.type == pa.large_binary():
            made = np.array([one.decode(errors="surrogateescape") for one in made.tolist()], dtype=object)
        return made
    if kind == "text":
        array = array.cast(pa.int8()) if types.is_boolean(found) else array
        array = array.cast(pa.decimal256(76, 0)) if types.is_decimal(found) else array
        return pc.fill_null(array.cast(pa.string()), "").to_numpy(zero_copy_only=False)
    if types.is_timestamp(found) or types.is_date(found):
        return array.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
    made, gaps = numbers_in(array)
    if gaps is not None:
        made = made.astype(np.float64)
        made[gaps] = np.nan
    return made


def ids(array: Any, one: Category) -> Values:
    """The ids of single values."""
    if one.bounds is not None:
        return _between(array, one)
    return _hashed(array, one.hashed_as) if one.hash else _whole(array, one)


def bags(array: Any, one: Category, na_values: Sequence[str] = ()) -> tuple[Values, Ids]:
    """The ids of the values of each row, all in one, and offsets. Gaps among values, and empty ones, are left out."""
    pc = needed("pyarrow.compute", "Arrow columns")
    plain = value_type(array.type)
    if is_list(plain):
        array = _decoded(array)
    elif is_text(plain) and one.separator is not None and not needed("pyarrow.types", "").is_null(plain):
        array = pc.split_pattern(_as_text(_decoded(array)), one.separator)
    else:
        found = ids(array, one)
        return _without_gaps(found, array, np.arange(len(array) + 1, dtype=np.int64))
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(pc.fill_null(pc.list_value_length(array), 0).to_numpy(), out=offsets[1:])
    items = with_gaps(array.flatten(), na_values)
    return _without_gaps(ids(items, one), items, offsets)


def _without_gaps(found: Values, items: Any, offsets: Ids) -> tuple[Values, Ids]:
    gaps = found.gaps
    if is_text(value_type(items.type)) and not needed("pyarrow.types", "").is_null(value_type(items.type)):
        empty = _is_empty(items)
        gaps = empty if gaps is None else gaps | empty
    if gaps is None or not gaps.any():
        return found, offsets
    kept = ~gaps
    counts = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=counts[1:])
    wrong = None if found.wrong is None else found.wrong[kept]
    return Values(found.ids[kept], None, wrong), counts[offsets]


def _is_empty(array: Any) -> Mask:
    pc = needed("pyarrow.compute", "Arrow columns")
    found: Mask = pc.fill_null(pc.equal(pc.binary_length(_decoded(array)), 0), True).to_numpy(zero_copy_only=False)
    return found


def _decoded(array: Any) -> Any:
    """Without dictionaries, runs and extensions around the values."""
    pa, pc = needed("pyarrow", "Arrow columns"), needed("pyarrow.compute", "Arrow columns")
    while True:
        if hasattr(array.type, "storage_type"):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _as_text(array: Any) -> Any:
    """Text and bytes with offsets in front, of which there are four kinds; others are cast to one of these."""
    pa = needed("pyarrow", "Arrow columns")
    types, found = pa.types, array.type
    if types.is_string_view(found):
        return array.cast(pa.large_string())
    if types.is_binary_view(found) or types.is_fixed_size_binary(found):
        return array.cast(pa.large_binary())
    return array


def _gaps(array: Any) -> Mask | None:
    if array.null_count == 0:
        return None
    found: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return found


def _hashed(array: Any, slot: str) -> Values:
    pa = needed("pyarrow", "Arrow columns")
    if hasattr(array.type, "storage_type"):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return _taken(array, slot)
    array = _decoded(array)
    gaps = _gaps(array)
    if pa.types.is_null(array.type):
        made = np.zeros(len(array), dtype=np.int64)
    elif is_text(array.type):
        text = _as_text(array)
        _, ends, data = text.buffers()
        wide = pa.types.is_large_string(text.type) or pa.types.is_large_binary(text.type)
        offsets = np.frombuffer(ends, np.int64 if wide else np.int32)[text.offset : text.offset + len(text) + 1]
        content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        made = hash_texts(slot, content, offsets)
    else:
        if pa.types.is_decimal(array.type):
            return _hashed(array.cast(pa.string()), slot)
        numbers = array.cast(pa.uint64() if pa.types.is_uint64(array.type) else pa.int64())
        made = hash_numbers(slot, (numbers if gaps is None else numbers.fill_null(0)).to_numpy())
    if gaps is not None:
        made[gaps] = gap_id(slot)
    return Values(made, gaps)


def _taken(array: Any, slot: str) -> Values:
    """The values of a dictionary array, each hashed once."""
    pc = needed("pyarrow.compute", "Arrow columns")
    if not len(array.dictionary):
        return Values(np.full(len(array), gap_id(slot)), _gaps(array))
    values = _hashed(array.dictionary, slot).ids
    gaps = _gaps(array.indices)
    indices = array.indices if gaps is None else pc.fill_null(array.indices, 0)
    made = np.take(values, indices.to_numpy())
    if gaps is not None:
        made[gaps] = gap_id(slot)
    if array.dictionary.null_count:  # a value may be a gap, too
        inner = pc.take(array.dictionary.is_null(), indices).to_numpy(zero_copy_only=False)
        gaps = inner if gaps is None else gaps | inner
    return Values(made, gaps)


def gap_id(slot: str) -> int:
    """The id of a gap: that of the empty text."""
    return int(hash_texts(slot, np.empty(0, np.uint8), np.zeros(2, np.int64))[0])


def _between(array: Any, one: Category) -> Values:
    """Ids of the parts between bounds: the hashes of their places."""
    bounds = np.asarray(one.bounds, dtype=np.float64)
    numbers, wrong = _parsed(array, float) if is_text(value_type(array.type)) else (floats(array), None)
    parts = hash_numbers(one.hashed_as, np.arange(len(bounds) + 1, dtype=np.int64))
    made = parts[np.searchsorted(bounds, numbers, side="right")]
    gaps = np.isnan(numbers) if wrong is None else np.isnan(numbers) & ~wrong
    made[gaps] = gap_id(one.hashed_as)
    infinite = np.isinf(numbers)
    return Values(made, gaps, infinite if wrong is None else infinite | wrong)


def _whole(array: Any, one: Category) -> Values:
    """Whole numbers that are ids themselves; those beyond int64 are wrong."""
    pa, pc = needed("pyarrow", "Arrow columns"), needed("pyarrow.compute", "Arrow columns")
    array = _decoded(array)
    wrong: Mask | None = None
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    if is_text(array.type):
        made, wrong = _parsed(array, int)
        gaps: Mask | None = _is_empty(array)
    else:
        gaps = _gaps(array)
        if pa.types.is_uint64(array.type) or pa.types.is_decimal(array.type):
            if pa.types.is_decimal(array.type):
                array = array.cast(pa.decimal256(76, 0))  # wide enough for the bounds
            fits = pc.less_equal(array, pa.scalar((1 << 63) - 1, pa.uint64()).cast(array.type))
            if pa.types.is_decimal(array.type):
                fits = pc.and_(fits, pc.greater_equal(array, pa.scalar(-(1 << 63), pa.int64()).cast(array.type)))
            wrong = pc.fill_null(pc.invert(fits), False).to_numpy(zero_copy_only=False)
            array = pc.if_else(fits, array, None)
        array = array.cast(pa.int64())
        made = (array if array.null_count == 0 else pc.fill_null(array, 0)).to_numpy()
    if gaps is not None:
        made = np.where(gaps, np.int64(one.missing or 0), made)
    return Values(made, gaps, wrong)


_FORMS: dict[type, str] = {
    int: r"^ *[-+]?0*[0-9]{1,18} *$",
    float: r"^ *[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,2})? *$",
}
"""Texts that surely are numbers within range; the rest, of which there is little, is looked at one by one."""


def _parsed(array: Any, kind: type) -> tuple[npt.NDArray[Any], Mask]:
    """Numbers in texts (0 or NaN for gaps), and which of them are none."""
    pa, pc = needed("pyarrow", "Arrow columns"), needed("pyarrow.compute", "Arrow columns")
    text = _decoded(array).cast(pa.large_binary())
    sure = pc.fill_null(pc.match_substring_regex(text, _FORMS[kind]), False)
    plain = pc.replace_substring_regex(pc.if_else(sure, text, None), r"^ *\+?| *$", "")
    numbers = plain.cast(pa.large_string()).cast(pa.int64() if kind is int else pa.float64())
    made = np.array(pc.fill_null(numbers, 0 if kind is int else float("nan")).to_numpy())
    unsure = ~sure.to_numpy(zero_copy_only=False) & ~_is_empty(text)
    wrong = np.zeros(len(text), dtype=np.bool_)
    for place in np.flatnonzero(unsure).tolist():
        value = _number(text[place].as_py(), kind)
        wrong[place] = value is None
        made[place] = 0 if value is None else value
    return made, wrong


def _number(text: bytes, kind: type) -> Any:
    """As the reader of text files has it: decimal digits only, finite, within int64."""
    form = rb" *[-+]?[0-9]+ *" if kind is int else rb" *[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)? *"
    if re.fullmatch(form, text) is None:
        return None
    value = kind(text)
    fits = -(1 << 63) <= value < 1 << 63 if kind is int else math.isfinite(value)
    return value if fits else None
