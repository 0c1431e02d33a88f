"""Typed reading of JSON that may be damaged or hostile, and the form of what is written so: errors name the field."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from types import UnionType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

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

    def choice(self, name: str, known: Collection[str]) -> str:
        """A string that is one of these."""
        if (value := self.text(name)) not in known:
            raise CheckpointError(f"{self.where} is damaged: unknown {name} {value!r}")
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

    def typed(self, name: str, hint: Any) -> Any:
        """A value of the kind that an annotation names."""
        plain = {int: self.integer, float: self.number, str: self.text, bool: self.flag}
        if hint in plain:
            return plain[hint](name)
        if get_origin(hint) is UnionType:
            return None if self._get(name) is None else self.typed(name, get_args(hint)[0])
        if get_origin(hint) is Mapping:
            inner = Fields(self.table(name), f"{self.where}, {name}")
            return {key: inner.typed(key, get_args(hint)[1]) for key in inner.value}
        if get_origin(hint) is not tuple:
            return hint.from_json(Fields(self.table(name), self.where))
        each = get_args(hint)[0]
        if get_origin(each) is tuple:
            return tuple((one.text("name"), get_args(each)[1].from_json(one)) for one in self.objects(name))
        return self.integers(name) if each is int else tuple(map(each.from_json, self.objects(name)))

    def _get(self, name: str) -> object:
        if name not in self.value:
            raise CheckpointError(f"{self.where} is damaged: {name!r} is missing")
        return self.value[name]

    def _wrong(self, name: str, expected: str, value: object) -> CheckpointError:
        return CheckpointError(f"{self.where} is damaged: {name!r} must be {expected}, got {_short(value)}")


class Formed:
    """Gives a frozen dataclass a form in JSON, led by its annotations; a field may be another such class.

    `tuple[tuple[str, X], ...]` is a list of the objects of X, each with its name.
    """

    LATER: ClassVar[Collection[str]] = ()
    """Fields with a default, which earlier versions did not write."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {name: _plain(getattr(self, name)) for name in _hints(type(self))}

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        """What `to_json` wrote; CheckpointError if a field is missing or out of range."""
        cls.check_form(fields)
        hints = _hints(cls).items()
        return cls(**{name: fields.typed(name, hint) for name, hint in hints if cls._is_wanted(name, fields)})

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        """CheckpointError if a value is out of a range that its annotation does not tell."""

    @classmethod
    def _is_wanted(cls, name: str, fields: Fields) -> bool:
        return name not in cls.LATER or name in fields.value


_known: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """The fields of a class with their annotations, which take a while to be resolved."""
    if kind not in _known:
        _known[kind] = {name: one for name, one in get_type_hints(kind).items() if get_origin(one) is not ClassVar}
    return _known[kind]


def _plain(value: Any) -> Any:
    if isinstance(value, Formed):
        return value.to_json()
    if isinstance(value, tuple):
        return [{"name": one[0], **one[1].to_json()} if isinstance(one, tuple) else _plain(one) for one in value]
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, Mapping) else value


def _short(value: object) -> str:
    # json.dumps may meet an integer too long to print; such a value is named by its type.
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
