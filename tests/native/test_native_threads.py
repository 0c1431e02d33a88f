"""How many threads the core uses, and that they survive a fork."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from fleet import _native


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = _native.num_threads()
    yield
    _native.set_threads(before)


def test_the_default_is_what_this_process_may_use() -> None:
    assert 1 <= _native.num_threads() <= 256


def test_the_number_is_set_and_checked() -> None:
    _native.set_threads(3)
    assert _native.num_threads() == 3
    for wrong in (0, 257, -1):
        with pytest.raises(ValueError, match="num_threads"):
            _native.set_threads(wrong)
    with pytest.raises(TypeError, match="num_threads"):
        _native.set_threads("3")  # type: ignore[arg-type]
    assert _native.num_threads() == 3


def test_threads_that_were_roused_find_the_same() -> None:
    keys = np.random.default_rng(0).integers(0, 1 << 60, 100_000)
    _native.set_threads(1)
    expected = _native.route(keys, 3)[:3]
    _native.set_threads(4)
    for patience in (0, 500, 2000):
        _native.rouse(patience)
        for one, other in zip(expected, _native.route(keys, 3)[:3], strict=True):
            assert np.array_equal(one, other)
    for wrong in (-1, 100_001):
        with pytest.raises(ValueError, match="microseconds"):
            _native.rouse(wrong)


def test_a_forked_child_has_threads_of_its_own() -> None:
    keys = np.random.default_rng(0).integers(0, 1 << 60, 300_000)
    _native.set_threads(4)
    expected = _native.route(keys, 3)[:3]
    child = os.fork()
    if child == 0:
        found = _native.route(keys, 3)[:3]
        same = all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
