"""Frozen dataclasses as JSON and back, led by their annotations; what does not fit them is refused.

Known kinds are str, int, float, bool, another dataclass, `X | None`, `tuple[X, Y]`, `tuple[X, ...]`, and pairs that
begin with a name, `tuple[tuple[str, X], ...]`, which become a JSON object in the same order. Every field is written and
every field is wanted: two versions of Fleet that differ in what they declare must not half understand each other.
"""

import json
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, NoReturn, Self, Union, get_args, get_origin, get_type_hints

from fleet.errors import UsageError

_PLAIN: dict[Any, str] = {int: "an int", str: "text", bool: "true or false"}


class JsonForm:
    """Gives a dataclass `to_json` and `from_json`; the two undo each other exactly, floats included."""

    def to_json(self) -> str:
        """One line of JSON, the same for equal objects."""
        return json.dumps(self.to_plain(), separators=(",", ":"), allow_nan=False)

    def to_plain(self) -> dict[str, Any]:
        """The same as what `json.dumps` takes, for a larger document."""
        plain: dict[str, Any] = _encode(self, type(self))
        return plain

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The object that `to_json` wrote; UsageError, one line, for anything else."""
        try:
            data = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
            raise UsageError(f"{cls.__name__} is not JSON: {reason}") from None
        return cls.from_plain(data)

    @classmethod
    def from_plain(cls, data: Any) -> Self:
        """The object that `to_plain` gave; UsageError, one line, for anything else."""
        made = _decode(data, cls, cls.__name__)
        assert isinstance(made, cls)
        return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _encode(value: Any, kind: Any) -> Any:
    if is_dataclass(kind):
        return {name: _encode(getattr(value, name), hint) for name, hint in _hints(_class(kind)).items()}
    if value is None or not get_args(kind):
        return value
    inner = _inner(kind)
    if inner is not None:
        return _encode(value, inner)
    each, named = _many(kind)
    if named:
        return {name: _encode(element, each) for name, element in value}
    if each is not None:
        return [_encode(element, each) for element in value]
    return [_encode(element, its) for element, its in zip(value, get_args(kind), strict=True)]


def _decode(data: Any, kind: Any, where: str) -> Any:
    if is_dataclass(kind):
        return _decode_fields(data, _class(kind), where)
    if kind is float:
        return data if _is(data, int) or _is(data, float) else _refuse(where, "a number", data)
    if kind in _PLAIN:
        return data if _is(data, kind) else _refuse(where, _PLAIN[kind], data)
    inner = _inner(kind)
    if inner is not None:
        return None if data is None else _decode(data, inner, where)
    each, named = _many(kind)
    if named:
        if not isinstance(data, dict):
            _refuse(where, "an object", data)
        return tuple((name, _decode(element, each, f"{where}.{name}")) for name, element in data.items())
    if not isinstance(data, list):
        _refuse(where, "a list", data)
    kinds = (each,) * len(data) if each is not None else get_args(kind)
    if len(kinds) != len(data):
        _refuse(where, f"a list of {len(kinds)}", data)
    pairs = zip(data, kinds, strict=True)
    return tuple(_decode(element, its, f"{where}[{index}]") for index, (element, its) in enumerate(pairs))


def _decode_fields(data: Any, kind: type, where: str) -> Any:
    if not isinstance(data, dict):
        _refuse(where, "an object", data)
    hints = _hints(kind)
    odd = [f"lacks the field {name!r}" for name in hints if name not in data]
    odd += [f"has a field {shown(name)} that this version does not know" for name in data if name not in hints]
    if odd:
        raise UsageError(f"{where} {odd[0]}; run the same version of Fleet everywhere")
    return kind(**{name: _decode(data[name], hint, f"{where}.{name}") for name, hint in hints.items()})


def _class(kind: Any) -> type:
    assert isinstance(kind, type)
    return kind


def _inner(kind: Any) -> Any | None:
    """The X of `X | None`."""
    if get_origin(kind) not in (UnionType, Union):
        return None
    return next(inner for inner in get_args(kind) if inner is not NoneType)


def _many(kind: Any) -> tuple[Any | None, bool]:
    """The X of `tuple[X, ...]` and False, of `tuple[tuple[str, X], ...]` and True; None for a tuple of fixed length."""
    each, *rest = get_args(kind)
    if rest != [...]:
        return None, False
    pair = get_args(each)
    return (pair[1], True) if len(pair) == 2 and pair[0] is str else (each, False)


def _is(data: Any, kind: type) -> bool:
    return isinstance(data, kind) and isinstance(data, bool) == (kind is bool)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _refuse(where: str, wants: str, data: Any) -> NoReturn:
    raise UsageError(f"{where} must be {wants}, got {shown(data)}")


def shown(value: object) -> str:
    """repr on one line, cut where it would drown the message."""
    if isinstance(value, tuple):
        value = list(value)
    line = " ".join(repr(value).split())
    return line if len(line) <= 80 else f"{line[:77]}..."
