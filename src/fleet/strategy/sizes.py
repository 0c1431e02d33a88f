"""Sizes of memory as users write them: a number of bytes, or `4GiB`, `500 MB`, `8G`."""

import re

from fleet.errors import UsageError
from fleet.json_form import shown

_UNITS = {"": 1, **{unit: 1024**power for power, unit in enumerate("KMGT", 1)}}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)\s*", re.IGNORECASE)


def size_bytes(what: str, value: object) -> int:
    """The number of bytes; UsageError that names `what` for anything that is none.

    >>> size_bytes("memory", "4GiB") == size_bytes("memory", "4 G") == 4 << 30
    True
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _FORM.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found[3] and not found[2]):
        raise UsageError(f"{what} must be a number of bytes or a text such as '4GiB' or '500MB', got {shown(value)}")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def in_units(num_bytes: float) -> str:
    """`8 GiB`, `1.5 MiB`, `12 bytes`: three digits, for people."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if num_bytes >= 1024**power:
            return (
                f"{num_bytes / 1024**power:.3g} {unit}"
                if num_bytes < 999.5 * 1024**power
                else f"{num_bytes / 1024**power:,.0f} {unit}"
            )
    return f"{num_bytes:,.0f} bytes"
