"""The core's parser of MultiSlot text against Python's own reading, and texts that nobody should write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

SLOTS = [("a", "f", 2), ("b", "i", 0), ("c", "d", 0)]


def parse(text: bytes, is_last: bool = True, slots: Any = SLOTS) -> Any:
    return _native.parse_multislot(np.frombuffer(text, dtype=np.uint8), is_last, slots)


floats = st.floats(allow_nan=False, allow_infinity=False)
ids = st.integers(-(2**63), 2**64 - 1)
records = st.tuples(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
    st.lists(ids, min_size=1, max_size=4),
    st.lists(floats, min_size=1, max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, max_size=5), st.sampled_from([" ", "  ", "\t"]), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_what_python_writes_is_read_back(lines: list[Any], blank: str, end: str) -> None:
    text = "".join(blank.join(" ".join([str(len(v)), *map(repr, v)]) for v in slots) + end for slots in lines)
    consumed, num_lines, num, ids_, columns, problem = parse(text.encode())
    assert (consumed, num, ids_, problem) == (len(text), len(lines), None, None)
    assert num_lines == text.count("\n")
    assert columns[0][0].tolist() == [slots[0] for slots in lines]
    for place, dtype in ((1, np.uint64), (2, np.float64)):
        values, offsets = columns[place]
        wanted = [np.array([x % 2**64 if place == 1 else x for x in slots[place]], dtype) for slots in lines]
        assert offsets.tolist() == np.cumsum([0, *map(len, wanted)]).tolist()
        assert values.view(dtype).tolist() == [x for one in wanted for x in one.tolist()]


@settings(max_examples=100, deadline=None)
@given(st.text("0123456789.-+eE", max_size=40))
def test_a_number_is_what_python_reads_or_is_refused(text: str) -> None:
    try:
        wanted = float(text)
    except ValueError:
        wanted = np.inf
    *_, columns, problem = parse(f"1 {text}\n".encode(), slots=[("x", "d", 1)])
    assert (problem is not None) == np.isinf(wanted)
    assert problem is not None or columns[0][0].item() == wanted


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_have_an_answer(text: bytes, is_last: bool) -> None:
    for before in (b"", b"2 1 2 1 "):
        consumed, num_lines, num, _, columns, problem = parse(before + text, is_last)
        assert consumed <= len(before + text)
        assert problem is None or (problem[0] == num_lines and not columns)
        assert num <= num_lines


@pytest.mark.parametrize(
    ("slots", "says"),
    [([], "slots must name at least one"), ([("a", "q", 1)], "slot 'a' must be f, d or i"), ([1], "a slot must be")],
)
def test_slots_of_another_kind_are_refused(slots: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        parse(b"", slots=slots)


def test_records_are_taken_by_index() -> None:
    values, offsets = np.arange(6, dtype=np.float32), np.array([0, 2, 2, 6])
    got, ends = _native.take_ragged(values, offsets, np.array([2, 1, 0]))
    assert got.dtype == np.float32
    assert got.tolist() == [2, 3, 4, 5, 0, 1]
    assert ends.tolist() == [0, 4, 4, 6]
    for index, wrong in (([3], offsets), ([-1], offsets), ([0], np.array([0, 7])), ([0], np.array([2, 1]))):
        with pytest.raises(ValueError, match="index must name records in 0.."):
            _native.take_ragged(values, wrong, np.array(index))
    with pytest.raises(ValueError, match="offsets must have at least 1 element"):
        _native.take_ragged(values, np.empty(0, dtype=np.int64), np.array([0]))
