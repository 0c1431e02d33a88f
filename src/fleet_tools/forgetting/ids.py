"""The ids that are to be forgotten, as keys of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.errors import UsageError

Keys = NDArray[np.int64]


def keys_of(ids: Any, schema: Any = None, column: str | None = None) -> Keys:
    """Distinct keys, ascending; UsageError in one line for what is no id.

    `ids`: integers, or a file with one id in each line. With `schema` and `column` they are what stands in that column
    of the data, and are made keys as in training.
    """
    if (schema is None) != (column is None):
        raise UsageError("fleet.forget: ids of raw values need both, schema= and the name of their column=")
    values = _lines(Path(ids)) if isinstance(ids, str | os.PathLike) else ids
    keys = _integers(values) if column is None else _of_column(values, schema, column)
    return np.unique(keys)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"fleet.forget: {path} cannot be read: {why}; give a file with one id in each line") from None


def _integers(values: Any) -> Keys:
    if isinstance(values, list) and all(isinstance(one, str) for one in values):
        try:
            values = [int(one) for one in values]
        except ValueError as error:
            bad = str(error).rpartition(": ")[2]
            raise UsageError(
                f"fleet.forget: {bad:.80} is no whole number; give schema= and column= for ids that are hashed"
            ) from None
    try:
        array = np.asarray(values)
        if array.size == 0:
            return np.zeros(0, np.int64)
        if array.dtype.kind not in "iu" or array.ndim != 1 or (array.dtype.kind == "u" and array.max() >= 1 << 63):
            raise ValueError
    except (ValueError, TypeError, RuntimeError, OverflowError):
        shown = f"{type(values).__name__} of {getattr(values, 'dtype', 'other values')}"
        raise UsageError(f"fleet.forget: ids must be int64, in one row or a file of lines, got {shown}") from None
    return array.astype(np.int64)


def _of_column(values: Sequence[Any], schema: Any, column: str) -> Keys:
    """By the parser of training's files."""
    from fleet_serve.columns.raw import RawColumns

    if not hasattr(schema, "to_plain"):
        raise UsageError(f"fleet.forget: schema= must be a fleet.data.Schema, got {schema!r:.80}")
    texts = [one if isinstance(one, str) else str(one) for one in values]
    if not texts:
        return np.zeros(0, np.int64)
    return np.asarray(RawColumns(schema.to_plain(), "schema=").ids({column: texts}, [column])[column].ids, np.int64)
