"""Columns that are computed from others: `fleet.data.Derived`, and the ready-made ones.

fleet.data.Schema(
    categories=["user", fleet.data.Category("hour", hash=False, missing=24), "user and hour"],
    derived=[
        fleet.data.Derived.hour("hour", "time"),
        fleet.data.Derived.cross("user and hour", ["user", "hour"]),
    ],
)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.checks import name_of
from fleet.errors import UsageError, UsageTypeError

Array = npt.NDArray[Any]
TIME_UNITS = {"time": 1_000_000, "time[s]": 1_000_000, "time[ms]": 1_000, "time[us]": 1, "time[ns]": 0.001}
"""How a function is given a column of times -> microseconds in one of the column's, where these are numbers."""
INPUTS = ("text", "float64", *TIME_UNITS)
JOINS = "\x1f"
_HOUR = 3_600_000_000


@dataclass(frozen=True)
class Derived:
    """A column that `function` makes of the columns `of`: of the file, or derived ones that stand before it.

    The function takes an array for each column, of all rows of a part of a file, and gives an array of as many values:
    numbers, with NaN for gaps, or texts. `of` may say how a column is given, `{"price": "float64"}`:

    - "text", unless something else is said: str objects, integers as their decimal text; a gap is ""
    - "float64": a gap is NaN
    - "time": datetime64[us], in UTC, of ISO 8601 texts, times of Arrow, or seconds since 1970 ("time[ms]", "time[us]"
      and "time[ns]" of other units); a gap is NaT

    Readers of files call it from several threads at once. Neither the place of a part in the file nor its size is
    certain: give each row a value by that row alone.
    """

    name: str
    of: Mapping[str, str]
    function: Callable[..., Any]

    def __init__(self, name: str, of: str | Sequence[str] | Mapping[str, str], function: Callable[..., Any]) -> None:
        object.__setattr__(self, "name", name_of("the name of a derived column", name))
        given: Any = [of] if isinstance(of, str) else of
        if not isinstance(given, Mapping | list | tuple) or not given:
            raise UsageTypeError(f"derived column {name!r} needs the names of its columns in of=, got {of!r}")
        inputs = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, "text")
        for column, kind in inputs.items():
            name_of(f"a column of derived column {name!r}", column)
            if kind not in INPUTS:
                raise UsageError(
                    f"derived column {name!r} takes {column!r} as {kind!r}; say one of {', '.join(INPUTS)}"
                )
        if not callable(function):
            raise UsageTypeError(f"derived column {name!r} needs a function of arrays, got {function!r}")
        object.__setattr__(self, "of", inputs)
        object.__setattr__(self, "function", function)

    @classmethod
    def hour(cls, name: str, of: str, *, unit: str = "s", shift_h: float = 0) -> Derived:
        """The hour of the day of a time, 0 to 23, `shift_h` hours from UTC; `unit` of times that are numbers."""
        return cls(name, {of: f"time[{unit}]"}, partial(_part_of_time, _HOUR, 24, 0, shift_h))

    @classmethod
    def weekday(cls, name: str, of: str, *, unit: str = "s", shift_h: float = 0) -> Derived:
        """The day of the week of a time, 0 (Monday) to 6."""
        return cls(name, {of: f"time[{unit}]"}, partial(_part_of_time, 24 * _HOUR, 7, 3, shift_h))

    @classmethod
    def seconds(cls, name: str, of: str, *, unit: str = "s") -> Derived:
        """The seconds since 1970 of a time: read them as `Number(name, dtype="float64")`."""
        return cls(name, {of: f"time[{unit}]"}, _seconds)

    @classmethod
    def buckets(cls, name: str, of: str, bounds: Sequence[float]) -> Derived:
        """The number of `bounds` (ascending) that are not above a number, as `Category(of, bounds=...)` hashes it."""
        edges = np.asarray(bounds, dtype=np.float64)
        if edges.ndim != 1 or not len(edges) or any(not a < b for a, b in pairwise(edges.tolist())):
            raise UsageError(f"bounds of derived column {name!r} must be ascending numbers, got {list(bounds)}")
        return cls(name, {of: "float64"}, partial(_buckets, edges))

    @classmethod
    def cross(cls, name: str, of: Sequence[str]) -> Derived:
        """The texts of several columns as one, with the character U+001F between them: one id for each combination."""
        if isinstance(of, str) or len(of) < 2:
            raise UsageError(f"derived column {name!r} is a cross of two columns or more, got {of!r}")
        return cls(name, of, _cross)


def checked(given: Any) -> tuple[Derived, ...]:
    """The derived columns of a schema."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, Derived) for one in given):
        raise UsageTypeError(f"derived must be a list of fleet.data.Derived, got {given!r}")
    names = [one.name for one in given]
    for place, one in enumerate(given):
        if later := set(names[place:]) & set(one.of):
            raise UsageError(f"derived column {one.name!r} is made of {min(later)!r}; name that before it")
        if one.name in names[:place]:
            raise UsageError(f"derived column {one.name!r} stands twice in the schema; leave one out")
    return tuple(given)


def _part_of_time(width: int, count: int, first: int, shift_h: float, times: Array) -> Array:
    micros = times.astype(np.int64) + round(shift_h * _HOUR)
    return np.where(np.isnat(times), np.nan, (micros // width + first) % count)


def _seconds(times: Array) -> Array:
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)


def _buckets(edges: Array, numbers: Array) -> Array:
    return np.where(np.isnan(numbers), np.nan, np.searchsorted(edges, numbers, side="right"))


def _cross(*texts: Array) -> Array:
    made: Array = texts[0]
    for more in texts[1:]:
        made = made + JOINS + more
    return made


READY: dict[str, Any] = {one.__name__.strip("_"): one for one in (_part_of_time, _seconds, _buckets, _cross)}
"""The functions of the ready-made ones, by the names that a saved schema has for them."""
