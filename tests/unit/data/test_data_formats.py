"""Which format a file has, and the ids of values that are no file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fleet
from fleet.data.formats.text import TextFormat
from fleet.data.reading.from_files import format_of, name_of
from fleet.errors import UsageError, UsageTypeError

SCHEMA = fleet.data.criteo()


@pytest.mark.parametrize(
    ("path", "name"),
    {
        "day_0": "text",
        "a/x.tsv": "text",
        "x.csv.GZ": "text",
        "x.parquet": "parquet",
        "s3://bucket/X.PQ": "parquet",
        "x.feather": "arrow",
        "x.parquet/day_0": "text",
        "x.ipc": "arrow",
        "x.arrow.gz": "arrow",
    }.items(),
)
def test_the_end_of_a_name_says_the_format(path: str, name: str) -> None:
    assert name_of(path) == name


def test_a_given_format_is_taken() -> None:
    assert isinstance(format_of("x.parquet", SCHEMA, "text"), TextFormat)
    assert isinstance(format_of("x", SCHEMA), TextFormat)
    own = TextFormat(SCHEMA)
    assert format_of("x", SCHEMA, own) is own
    with pytest.raises(UsageError, match="format must be one of text, parquet, arrow, got 'csvx'"):
        format_of("x", SCHEMA, "csvx")
    with pytest.raises(UsageTypeError, match=r"or have cut\(\) and read\(\), got 5"):
        format_of("x", SCHEMA, 5)  # type: ignore[arg-type]


def test_values_of_any_kind_have_the_ids_of_their_text() -> None:
    wanted = fleet.data.hash_ids("user", ["17", "-3", "0"]).tolist()
    kinds: list[Any] = [
        [17, -3, 0],
        [b"17", "-3", np.int32(0)],
        np.array([17, -3, 0]),
        np.array([17, -3, 0], dtype=np.int8),
        np.array(["17", "-3", "0"]),
        np.array([b"17", b"-3", b"0"]),
        np.array(["17", "-3", 0], dtype=object),
        torch.tensor([17, -3, 0]),
    ]
    for values in kinds:
        made = fleet.data.hash_ids("user", values)
        assert made.dtype == np.int64
        assert made.tolist() == wanted
    assert fleet.data.hash_ids("user", np.array([[2**64 - 1], [0]], np.uint64)).shape == (2, 1)
    assert fleet.data.hash_ids("user", np.array([2**64 - 1], np.uint64)) == fleet.data.hash_ids("user", [2**64 - 1])
    assert fleet.data.hash_ids("user", [None]) == fleet.data.hash_ids("user", [""])
    assert fleet.data.hash_ids("user", []).tolist() == []


@pytest.mark.parametrize("values", ["text", b"text", 5, np.zeros(3), [1.5], [True]])
def test_values_that_have_no_ids(values: Any) -> None:
    with pytest.raises(UsageTypeError, match="hash_ids takes"):
        fleet.data.hash_ids("user", values)
