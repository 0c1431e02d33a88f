"""Sums by which damage is found: CRC-32C, of which the core takes gigabytes in a second.

A sum is text, `crc32c:1a2b3c4d`, so that it says how it was taken. `crc32`, zlib's, is that of files which older
versions wrote. A sum finds what storage damages, not what an attacker changes.
"""

import re
import zlib
from collections.abc import Callable
from typing import Any

from fleet import _native

NEW = "crc32c"
_METHODS: dict[str, Callable[[Any, int], int]] = {NEW: _native.crc32c, "crc32": zlib.crc32}
_FORM = re.compile(rf"({'|'.join(_METHODS)}):[0-9a-f]{{8}}")


class Checksum:
    """The sum of bytes that come one after the other."""

    def __init__(self, like: str = NEW) -> None:
        """`like`: a sum, or the name of its kind."""
        self._kind = like.partition(":")[0]
        self._value = 0

    def add(self, data: Any) -> None:
        """The next bytes, in anything that shows its memory."""
        self._value = _METHODS[self._kind](data, self._value)

    def __str__(self) -> str:
        return f"{self._kind}:{self._value:08x}"


def checksum(*parts: Any) -> str:
    """The sum of some bytes, one after the other."""
    total = Checksum()
    for part in parts:
        total.add(part)
    return str(total)


def is_checksum(text: str) -> bool:
    """Whether a text is a sum that can be compared here."""
    return _FORM.fullmatch(text) is not None
