"""`paddle.compat`: text and numbers that are the same in every Python, from the days when scripts ran in two."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

__all__ = ["floor_division", "get_exception_message", "int_type", "long_type", "round", "to_bytes", "to_text"]

int_type = int
long_type = int


def to_text(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Bytes as text, also those inside a list, a set or a dict; `inplace` changes what is given."""
    return _each(obj, lambda one: one.decode(encoding) if isinstance(one, bytes) else one, inplace)


def to_bytes(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Text as bytes, also that inside a list or a set; `inplace` changes what is given."""
    return _each(obj, lambda one: one.encode(encoding) if isinstance(one, str) else one, inplace)


def round(x: float, d: int = 0) -> float:
    """x to `d` digits, halves away from zero: 2.5 becomes 3.0."""
    scale = 10**d
    return float(math.copysign(math.floor(builtins.abs(x) * scale + 0.5) / scale, x))


def floor_division(x: Any, y: Any) -> Any:
    """The whole part of x / y, towards minus infinity."""
    return x // y


def get_exception_message(exc: BaseException) -> str:
    """What an error says."""
    return str(exc)


def _each(given: Any, change: Callable[[Any], Any], inplace: bool) -> Any:
    if isinstance(given, list):
        changed: Any = [_each(one, change, inplace) for one in given]
        if inplace:
            given[:] = changed
    elif isinstance(given, set):
        changed = {_each(one, change, False) for one in given}
        if inplace:
            given.clear()
            given.update(changed)
    elif isinstance(given, dict):
        changed = {change(key): _each(one, change, inplace) for key, one in given.items()}
        if inplace:
            given.clear()
            given.update(changed)
    else:
        return change(given)
    return given if inplace else changed
