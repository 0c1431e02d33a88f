"""Structures taken apart and put together."""

from __future__ import annotations

import importlib
from collections import namedtuple
from typing import Any

import pytest

from fleet.errors import UsageError

utils: Any = importlib.import_module("paddle.fluid.layers.utils")

Pair = namedtuple("Pair", "left right")

NEST = {"b": [1, (2, 3)], "a": Pair(4, 5)}


def test_there_and_back() -> None:
    assert utils.flatten(NEST) == [4, 5, 1, 2, 3]
    assert utils.pack_sequence_as(NEST, utils.flatten(NEST)) == NEST
    assert utils.map_structure(lambda one, other: one * other, NEST, NEST) == {"b": [1, (4, 9)], "a": Pair(16, 25)}
    assert isinstance(utils.map_structure(str, NEST)["a"], Pair)


def test_what_differs_is_named() -> None:
    with pytest.raises(UsageError, match="the structure has 5 ends, and 2 were given"):
        utils.pack_sequence_as(NEST, [1, 2])
    with pytest.raises(UsageError, match=r"the structures differ: \[\*, \*\] and \[\*\]"):
        utils.map_structure(max, [1, 2], [1])
    with pytest.raises(UsageError, match="a list and a tuple"):
        utils.assert_same_structure([[1]], [(1,)])
    utils.assert_same_structure([[1]], [(1,)], check_types=False)
    with pytest.raises(UsageError, match="needs a structure"):
        utils.map_structure(max)
