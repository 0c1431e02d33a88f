"""Variables in lists, tuples and dictionaries, as functions of branches and loops return them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def flat(value: Any) -> list[Any]:
    """What is in a nested value, in order; dictionaries in the order of their keys."""
    if isinstance(value, dict):
        return [one for key in sorted(value) for one in flat(value[key])]
    return [one for inner in value for one in flat(inner)] if isinstance(value, list | tuple) else [value]


def packed(like: Any, values: list[Any]) -> Any:
    """Values nested as `like` is."""
    return _packed(like, iter(values))


def _packed(like: Any, values: Iterator[Any]) -> Any:
    if isinstance(like, dict):
        made = {key: _packed(like[key], values) for key in sorted(like)}
        return {key: made[key] for key in like}
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*[_packed(one, values) for one in like])
    if isinstance(like, list | tuple):
        return type(like)([_packed(one, values) for one in like])
    return next(values)


def form(value: Any) -> str:
    """How a value is nested, for people and to compare: `[*, (*, *)]`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {form(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(form, value)) + "]"
    return "*"
