"""What stands between the brackets of `x[...]`, as attributes of a `slice` operator."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from fleet_programs.expressions.appending import Appender

_ALL = slice(None)
_END = 2**31 - 1
"""More than any dimension has."""


def is_plain(key: Any) -> bool:
    """Whether there are only whole numbers, `...` and slices of such without a step."""
    return all(
        all(bound is None or _is_whole(bound) for bound in (one.start, one.stop)) and one.step in (None, 1)
        if isinstance(one, slice)
        else one is ... or _is_whole(one)
        for one in (key if isinstance(key, tuple) else (key,))
    )


def subscript(layer: Appender, name: str, rank: int, key: Any) -> dict[str, list[int]]:
    """The attributes for a variable of so many dimensions; UsageError for what they cannot say."""
    keys = list(key) if isinstance(key, tuple) else [key]
    num_dots = sum(one is ... for one in keys)
    if num_dots > 1 or len(keys) - num_dots > rank:
        raise layer.error(f"{name!r} has {rank} dimensions, and is asked for {len(keys) - num_dots} of them")
    if num_dots:
        at = [one is ... for one in keys].index(True)
        keys[at : at + 1] = [_ALL] * (rank - len(keys) + 1)
    axes, starts, ends, gone = [], [], [], []
    for axis, one in enumerate(keys):
        if isinstance(one, slice):
            if one.step not in (None, 1):
                raise layer.error(f"{name!r}: slices must have step 1, got {one.step!r}")
            bounds = (0 if one.start is None else one.start, _END if one.stop is None else one.stop)
        else:
            bounds = (one, _END if one == -1 else one + 1) if _is_whole(one) else (None, None)
            gone.append(axis)
        if not all(_is_whole(bound) for bound in bounds):
            raise layer.error(f"{name!r} takes whole numbers and slices between [], got {one!r}; use layers.gather()")
        if bounds != (0, _END):
            axes.append(axis)
            starts.append(int(bounds[0]))
            ends.append(int(bounds[1]))
    return {"axes": axes, "starts": starts, "ends": ends, "decrease_axis": gone}


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
