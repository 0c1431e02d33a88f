"""The checksum of files and journals: known values, any buffer, in pieces."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

from fleet import _native

DIGITS = b"123456789"


def test_known_value_of_any_buffer() -> None:
    whole = np.frombuffer(DIGITS, np.uint8)
    with mmap.mmap(-1, len(DIGITS)) as mapped:
        mapped[:] = DIGITS
        for data in (DIGITS, bytearray(DIGITS), memoryview(DIGITS), whole, whole.reshape(3, 3), mapped):
            assert _native.crc32c(data) == 0xE3069283
    assert _native.crc32c(b"") == _native.crc32c(np.zeros((0, 4), np.float32)) == 0
    assert _native.crc32c(memoryview(b"x" + DIGITS)[1:]) == 0xE3069283


def test_pieces_give_what_the_whole_gives() -> None:
    data = np.random.default_rng(1).integers(0, 256, 100_000, np.uint8)
    crc = 0
    for begin in range(0, len(data), 7001):
        crc = _native.crc32c(data[begin : begin + 7001], crc)
    assert crc == _native.crc32c(data, start=0)
    data[54321] ^= 16
    assert crc != _native.crc32c(data)


@pytest.mark.parametrize(
    ("data", "start", "error", "message"),
    [
        ("text", 0, TypeError, "data must be bytes or another object that shows its memory, got str"),
        (None, 0, TypeError, "data must be bytes or another object that shows its memory, got NoneType"),
        (np.zeros(6)[::2], 0, ValueError, "data must be contiguous; make a copy of it first"),
        (b"", -1, ValueError, "start must be in 0..4294967295, got -1"),
        (b"", 2**32, ValueError, "start must be in 0..4294967295, got 4294967296"),
        (b"", 1.5, TypeError, "start must be an integer, got float"),
    ],
)
def test_bad_arguments(data: Any, start: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        _native.crc32c(data, start)
    assert str(caught.value) == message
