"""What the columns of somebody's files mean, as JSON beside them: the arguments of fleet.data.Schema.

{"label": "clicked", "numbers": ["age", {"name": "price", "log": true}],
 "categories": ["user", "item", {"name": "tags", "separator": "^"}], "delimiter": ",", "header": true}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fleet.data import Category, Number, Schema
from fleet.errors import UsageError

NAME = "columns.json"


def read_columns(folder: Path) -> Schema:
    """The schema that `columns.json` in a folder describes."""
    path = folder / NAME
    try:
        told: Any = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; it says which columns are label and what") from None
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise UsageError(f"{path} must be an object with label, numbers and categories, got {type(told).__name__}")
    try:
        lists = {"numbers": (Number, told.pop("numbers", [])), "categories": (Category, told.pop("categories", []))}
        told |= {name: [_made(kind, one) for one in found] for name, (kind, found) in lists.items()}
        return Schema(**told)
    except TypeError as error:
        raise UsageError(f"{path} has what fleet.data.Schema has not: {error}") from None


def _made(kind: type[Any], told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    bounds = {"bounds": tuple(told["bounds"])} if told.get("bounds") else {}
    return kind(**{**told, **bounds})
