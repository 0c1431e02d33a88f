"""What type an attribute of an operator may have: that of the value it has when it is left out."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def why_not(value: Any, usual: Any) -> str:
    """Why a value cannot stand where `usual` is the default; empty if it can.

    >>> why_not(1, 0.5), why_not("abc", -1), why_not([1, 0.5], [0])
    ('', "must be a whole number, got 'abc'", 'must hold a whole number each, got 0.5')
    """
    if not isinstance(usual, list | tuple):
        return "" if _fits(value, type(usual)) else f"must be {_WORDS[type(usual)]}, got {value!r}"
    if not isinstance(value, list | tuple):
        return f"must be a list, got {value!r}"
    wrong = [one for one in value if usual and not _fits(one, type(usual[0]))]
    return f"must hold {_WORDS[type(usual[0])]} each, got {wrong[0]!r}" if wrong else ""


def _fits(value: Any, kind: type) -> bool:
    if kind not in _WORDS:
        return True
    if isinstance(value, bool | np.bool_) or kind is bool:
        return kind is bool and isinstance(value, bool | np.bool_)
    return isinstance(value, {int: Integral, float: Real, str: str}[kind])
