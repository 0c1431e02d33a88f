"""Sizes of memory as users write them: a number of bytes, or `4GiB`, `500 MB`, `8G`."""

from __future__ import annotations

import re

from fleet.errors import UsageError
from fleet.strategy.field import shown

_UNITS = {"": 1, **{unit: 1024**power for power, unit in enumerate("KMGT", 1)}}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)\s*", re.IGNORECASE)


def size_bytes(table: str, value: object) -> int:
    """The number of bytes; UsageError that names the table for anything that is none.

    >>> size_bytes("ads", "4GiB") == size_bytes("ads", "4 G") == 4 << 30
    True
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _FORM.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found[3] and not found[2]):
        raise UsageError(
            f"table {table!r}: memory must be a number of bytes or a text such as '4GiB' or '500MB', got {shown(value)}"
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])
