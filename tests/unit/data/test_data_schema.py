"""fleet.data.Schema: what it cannot be is told in one line, before a file is opened."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.data import Category, Number, Schema
from fleet.data.columns.blocks import Problems
from fleet.errors import UsageError, UsageTypeError


@pytest.mark.parametrize(
    ("made", "given", "says"),
    [
        (Schema, {"label": 5}, "label must be a list of names, got 5"),
        (Schema, {"numbers": [5]}, "a column is named by text or a fleet.data.Number, got 5"),
        (Schema, {"categories": [Number("a")]}, "a column is named by text or a fleet.data.Category"),
        (Schema, {"label": "y", "weight": ["w"]}, "weight must be a text"),
        (Schema, {"label": "y", "columns": "abc"}, "columns must be a list of names"),
        (Schema, {"label": "y", "delimiter": 5}, "delimiter must be a text of one byte"),
        (Schema, {"label": "y", "delimiter": "\n"}, "delimiter must not be '\\\\n', which ends lines"),
        (Schema, {"label": "y", "header": "no"}, "header must be True or False"),
        (Schema, {"label": "y", "quotes": "no"}, "quotes must be True or False"),
        (Number, {"name": "a", "log": "no"}, "log of column 'a' must be True or False"),
        (Number, {"name": "a", "missing": "x"}, "missing of column 'a' must be a number"),
        (Number, {"name": "a", "missing": 1e300}, "missing of column 'a' must be finite as a float32"),
        (Category, {"name": ""}, "the name of a category is empty"),
        (Category, {"name": "a", "hash": 1}, "hash of column 'a' must be True or False"),
        (Category, {"name": "a", "bounds": 5}, "bounds of column 'a' must be ascending numbers"),
        (Category, {"name": "a", "slot": 5}, "slot of column 'a' must be a text"),
        (Category, {"name": "a", "slot": "b", "hash": False}, "column 'a' has hash=False and a slot to hash as"),
        (Category, {"name": "a", "separator": 5}, "separator of column 'a' must be a text of one byte"),
        (Category, {"name": "a", "separator": "\n"}, "separator of column 'a' must not be"),
        (Category, {"name": "a", "length": 2.5}, "length of column 'a' must be an int"),
        (Category, {"name": "a", "length": 10**12}, "length of column 'a' must be at most"),
        (Category, {"name": "a", "length": 2, "padding": 1 << 63}, "padding of column 'a' must be an int64"),
        (Category, {"name": "a", "padding": 5}, "column 'a' has nothing to fill up with padding"),
        (Category, {"name": "a", "separator": ",", "padding": 5}, "column 'a' has nothing to fill up with padding"),
        (Problems, {"most_share": "x"}, "bad must be a share of lines from 0 to 1"),
    ],
)
def test_what_a_schema_cannot_be(made: type[Any], given: dict[str, Any], says: str) -> None:
    with pytest.raises((UsageError, UsageTypeError), match=says) as caught:
        made(**given)
    assert "\n" not in str(caught.value)
