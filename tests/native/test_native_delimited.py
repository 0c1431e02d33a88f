"""The core's parser of delimited text against a plain one in Python, and texts that nobody should write."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

SEED = _native.slot_seed("slot")
BOUNDS = [-1.0, 0.0, 2.5, 100.0]
NUMBER = re.compile(rb" *([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?) *")
INTEGER = re.compile(rb" *([-+]?[0-9]+) *")

# Column 0 label, 1 a number, 2 its logarithm, 3 hashed, 4 plain, 5 bounds, 6 bag of hashes, 7 matrix of integers, 8
# read by nobody, 9 weight and, once more, a label.
NUM_COLUMNS = 10


def plan(delimiter: str = "\t", quotes: bool = False) -> _native.DelimitedText:
    made = _native.DelimitedText(NUM_COLUMNS, delimiter, quotes)
    made.add_label(0, "label")
    made.add_label(9, "second")
    made.add_number(1, "number", False, -7.5)
    made.add_number(2, "log", True, 0.25)
    made.add_id(4, "plain", "p", SEED, [], -1)
    made.add_id(3, "hashed", "h", SEED, [], 0)
    made.add_id(5, "bounds", "b", SEED, BOUNDS, -2)
    made.add_bag(6, "bag", "h", SEED, [], 0, "|", 0)
    made.add_bag(7, "matrix", "p", SEED, [], -3, "|", 3)
    made.add_weight(9, "weight")
    return made


def parse(text: bytes, how: _native.DelimitedText) -> Any:
    return how.parse(np.frombuffer(text, dtype=np.uint8))


class WrongError(Exception):
    pass


def number(field: bytes) -> float:
    if not (found := NUMBER.fullmatch(field)) or math.isinf(value := float(found[1])):
        raise WrongError
    return value


def float32(field: bytes) -> float:
    with np.errstate(over="ignore"):
        value = float(np.float32(number(field)))
    if math.isinf(value):
        raise WrongError
    return value


def label(field: bytes) -> float:
    """A number whose whole part float32 keeps."""
    value = float32(field)
    if 2**24 < abs(number(field)) < 2**63 and abs(value - number(field)) >= 0.5:
        raise WrongError
    return value


def integer(field: bytes) -> int:
    if not (found := INTEGER.fullmatch(field)) or not -(2**63) <= int(found[1]) < 2**63:
        raise WrongError
    return int(found[1])


def hashed(text: bytes) -> int:
    return int(_native.hash_text(SEED, np.frombuffer(text, np.uint8), np.array([0, len(text)]))[0])


def split(line: bytes, delimiter: bytes, quotes: bool) -> list[bytes]:
    if not quotes:
        return line.split(delimiter)
    fields, rest = [], line
    while True:
        if rest.startswith(b'"'):
            found = re.match(rb'"((?:[^"]|"")*)"', rest)
            if not found or rest[found.end() : found.end() + 1] not in (b"", delimiter):
                raise WrongError
            fields.append(found[1].replace(b'""', b'"'))
            rest = rest[found.end() :]
        else:
            end = len(rest) if delimiter not in rest else rest.index(delimiter)
            fields.append(rest[:end])
            rest = rest[end:]
        if not rest:
            return fields
        rest = rest[1:]


def record(line: bytes, delimiter: bytes, quotes: bool) -> Any:
    """What a line should become."""
    fields = split(line, delimiter, quotes)
    if len(fields) != NUM_COLUMNS:
        raise WrongError
    labels, weight = [label(fields[0]), label(fields[9])], label(fields[9])
    logarithm = 0.25
    if fields[2]:
        value = number(fields[2])
        logarithm = float(np.float32(math.copysign(math.log1p(abs(value)), value)))
    part = -2
    if fields[5]:
        part = hashed(b"%d" % np.searchsorted(BOUNDS, number(fields[5]), side="right"))
    ids = [integer(fields[4]) if fields[4] else -1, hashed(fields[3]), part]
    bag = [hashed(item) for item in fields[6].split(b"|") if item]
    row = [integer(item) for item in fields[7].split(b"|") if item][-3:]
    return labels, [float32(fields[1]) if fields[1] else -7.5, logarithm], ids, weight, bag, (row + [-3] * 3)[:3]


def check(text: bytes, delimiter: str, quotes: bool) -> int:
    """Compare the parser with the plain one; the number of records."""
    lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    wanted, bad = [], {}
    for place, line in enumerate(lines):
        if line:
            try:
                wanted.append(record(line, delimiter.encode(), quotes))
            except WrongError:
                bad[place] = sum(len(one) + 1 for one in text.split(b"\n")[:place])
    num_lines, num, labels, numbers, ids, weights, bags, told, *_ = parse(text, plan(delimiter, quotes))
    assert num == len(wanted)
    assert num_lines == len(wanted) + len(bad)
    assert labels.tolist() == [one[0] for one in wanted]
    assert numbers.tolist() == [one[1] for one in wanted]
    assert ids.tolist() == [one[2] for one in wanted]
    assert weights.tolist() == [[one[3]] for one in wanted]
    (values, offsets), (matrix, none) = bags
    assert offsets.tolist() == np.cumsum([0, *(len(one[4]) for one in wanted)]).tolist()
    assert values.tolist() == [item for one in wanted for item in one[4]]
    assert matrix.tolist() == [one[5] for one in wanted]
    assert none is None
    assert [(line, begin) for line, begin, _ in told] == list(bad.items())[:8]
    return len(wanted)


numerals = st.one_of(
    st.integers(-(10**10), 10**10).map(lambda n: b"%d" % n),
    st.integers(-(2**64), 2**65).map(lambda n: b"%d" % n),
    st.floats().map(lambda x: repr(x).encode()),
    st.text("0123456789.-+eE ", max_size=12).map(str.encode),
    st.sampled_from([b"", b"0", b"-0", b"+3", b" 4 ", b"00000012", b"123456789", b"1e39", b"-", b"3.4028236e38"]),
)
texts = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b'"', b'""', b'"a"', b'"a', b'5" b', b"68fd1e64"]))
items = st.lists(st.integers(-5, 10**12).map(lambda n: b"%d" % n) | st.just(b""), max_size=5).map(b"|".join)
usual = st.tuples(
    st.sampled_from([b"0", b"1"]),
    st.integers(-3, 10**9).map(lambda n: b"%d" % n) | st.just(b""),
    st.integers(-3, 10**9).map(lambda n: b"%d" % n) | st.just(b""),
    st.binary(max_size=20).map(lambda text: text.translate(None, b'\t\n\r,"')),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: b"%d" % n) | st.just(b""),
    st.floats(-1e3, 1e3).map(lambda x: repr(x).encode()) | st.just(b""),
    items,
    items,
    st.just(b"x") | st.just(b""),
    st.just(b"0.5"),
)
unusual = st.lists(numerals | texts | items, min_size=9, max_size=11).map(tuple)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(usual | usual | unusual, max_size=6),
    st.sampled_from(["\t", ",", ";"]),
    st.booleans(),
    st.sampled_from([b"\n", b"\r\n", b"\n\n"]),
    st.booleans(),
)
def test_lines_are_read_as_a_plain_parser_does(
    lines: list[tuple[bytes, ...]], delimiter: str, quotes: bool, end: bytes, has_last_end: bool
) -> None:
    text = b"".join(delimiter.encode().join(fields) + end for fields in lines)
    check(text if has_last_end else text.removesuffix(end), delimiter, quotes)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*b'\t\n\r,|"-.1e9 x\xff\0']), max_size=80).map(bytes) | st.binary(max_size=200))
def test_any_bytes_have_an_answer(text: bytes) -> None:
    for delimiter, quotes in (("\t", False), (",", True), ("|", True)):
        check(text, delimiter, quotes)


def test_many_lines_with_bad_ones_among_them() -> None:
    rng = np.random.default_rng(0)
    good = b"1\t%d\t%d\t%08x\t5\t1\ta|b\t1|2\tx\t1"
    rows = [good % tuple(row) for row in rng.integers(0, 10**6, (1000, 3)).tolist()]
    for place in rng.choice(1000, 100, replace=False).tolist():
        rows[place] = [b"1\t2", rows[place].replace(b"1\t", b"z\t", 1), rows[place].replace(b"1|2", b"1|y")][place % 3]
    assert check(b"\n".join(rows), "\t", False) == 900


def test_quoted_fields() -> None:
    line = b'"1","2","3","a, ""b""","5",,"x|y",1|2,"not\tread",1\n'
    assert check(line * 100, ",", True) == 100


def test_what_is_wrong_is_told() -> None:
    fields = [b"1", b"2", b"3", b"a", b"4", b"5", b"b", b"6", b"x", b"1"]

    def told(place: int, field: bytes) -> str:
        line = b"\t".join([*fields[:place], field, *fields[place + 1 :]])
        *_, bad, _, _, _ = parse(b"\n" + line, plan())
        assert bad[0][:2] == (1, 1)
        return str(bad[0][2])

    assert told(0, b"") == "label 'label' is empty"
    assert told(0, b"yes\x1b[31m") == "label 'label' has 'yes?[31m', which is no number"
    assert told(1, b"inf") == "column 'number' has 'inf', which is no number"
    assert told(1, b"1e40") == "column 'number' has '1e40', which float32 cannot hold"
    assert told(4, b"9223372036854775808") == "column 'plain' has '9223372036854775808', which int64 cannot hold"
    assert told(4, b"1.0") == "column 'plain' has '1.0', which is no integer"
    assert told(5, b"old") == "column 'bounds' has 'old', which is no number"
    assert told(7, b"1|two|3|three") == "column 'matrix' has 'two', which is no integer"
    assert told(9, b" ") == "label 'second' has ' ', which is no number"
    assert told(8, b"\t") == "11 columns instead of 10"


def test_plans_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="delimiter must be one byte, got 2"):
        _native.DelimitedText(1, "::", False)
    with pytest.raises(ValueError, match="delimiter must not be an end of a line or a quote"):
        _native.DelimitedText(1, "\n", False)
    with pytest.raises(ValueError, match=r"column must lie in 0..1 \(exclusive\), got 1"):
        _native.DelimitedText(1, ",", False).add_label(1, "x")
    with pytest.raises(ValueError, match="kind must be h, p or b, got z"):
        _native.DelimitedText(1, ",", False).add_id(0, "x", "z", 0, [], 0)
    with pytest.raises(ValueError, match="bounds must ascend"):
        _native.DelimitedText(1, ",", False).add_id(0, "x", "b", 0, [1, 1], 0)
    with pytest.raises(TypeError, match="text must be uint8, got int64"):
        _native.DelimitedText(1, ",", False).parse(np.zeros(1, np.int64))


@pytest.mark.parametrize(("text", "count"), [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\nb", 2), (b"a\n" * 1000, 1000)])
def test_lines_are_counted(text: bytes, count: int) -> None:
    assert _native.count_lines(np.frombuffer(text, np.uint8)) == count


def test_too_little_memory_is_an_error_and_not_the_end_of_the_process() -> None:
    made = _native.DelimitedText(1, "\t", False)
    made.add_bag(0, "bag", "h", SEED, [], 0, ",", 10**15)
    with pytest.raises(MemoryError):
        parse(b"a,b\n", made)
