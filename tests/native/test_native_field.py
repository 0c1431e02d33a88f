"""The logarithm of numbers, which columns of files share with text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-10_000, 10_000).map(float)


@settings(max_examples=50, deadline=None)
@given(st.lists(FINITE, max_size=20))
def test_it_is_the_logarithm_of_one_more_with_the_sign(numbers: list[float]) -> None:
    wanted = np.array([math.copysign(math.log1p(abs(number)), number) for number in numbers], dtype=np.float32)
    found = _native.signed_log(np.array(numbers, dtype=np.float64))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_what_is_no_number_stays_so() -> None:
    found = _native.signed_log(np.array([np.nan, np.inf, -np.inf]))
    assert np.isnan(found[0])
    assert found[1:].tolist() == [np.inf, -np.inf]


def test_it_takes_float64() -> None:
    with pytest.raises(TypeError, match="values must be float64, got int64"):
        _native.signed_log(np.arange(3))  # type: ignore[arg-type]
