"""Typed reading of JSON that may be damaged or hostile: each error names the document and the field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from fleet.errors import CheckpointError


def parse_json(text: str | bytes, where: str) -> Fields:
    """Read one JSON object; a name that stands twice is refused, for readers would disagree about its value."""
    try:
        value = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} is damaged: it is not JSON ({error})") from None
    return Fields(value, where)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


class Fields:
    """One JSON object, read field by field; a missing or ill-typed field is a CheckpointError."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise CheckpointError(f"{where} is damaged: an object was expected, got {_short(value)}")
        self.value: dict[str, Any] = value
        self.where = where

    def integer(self, name: str, low: int = 0, high: int = 2**63 - 1) -> int:
        """A whole number from `low` to `high`; True and False are none."""
        value = self._get(name)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low} to {high}", value)
        return value

    def number(self, name: str) -> float:
        """A finite number, whole or not; True and False are none."""
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._wrong(name, "a finite number", value)
        return float(value)

    def text(self, name: str) -> str:
        """A string."""
        value = self._get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def flag(self, name: str) -> bool:
        """True or False."""
        value = self._get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def table(self, name: str) -> dict[str, Any]:
        """An object, as it is."""
        value = self._get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers from 0."""
        value = self._get(name)
        if not isinstance(value, list) or not all(type(item) is int and 0 <= item < 2**63 for item in value):
            raise self._wrong(name, "a list of whole numbers from 0", value)
        return tuple(value)

    def items(self, name: str) -> list[Any]:
        """A list, as it is."""
        value = self._get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return value

    def objects(self, name: str) -> Iterator[Fields]:
        """A list of objects."""
        return (Fields(item, f"{self.where}, {name}[{number}]") for number, item in enumerate(self.items(name)))

    def _get(self, name: str) -> object:
        if name not in self.value:
            raise CheckpointError(f"{self.where} is damaged: {name!r} is missing")
        return self.value[name]

    def _wrong(self, name: str, expected: str, value: object) -> CheckpointError:
        return CheckpointError(f"{self.where} is damaged: {name!r} must be {expected}, got {_short(value)}")


def _short(value: object) -> str:
    # json.dumps may meet an integer too long to print; such a value is named by its type.
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
