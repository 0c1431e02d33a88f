"""What a strategy does with a setting that is not built: it reads as its default, and takes nothing else.

    strategy.hybrid_configs["mp_degree"]            1
    strategy.hybrid_configs = {"mp_degree": 1}      changes nothing
    strategy.hybrid_configs = {"mp_degree": 2}      NotSupportedError, with what to do instead

A strategy that keeps them all (`keep_what_is_not_built`) takes other values of the same kind, and refuses them when it
is used.

`path` is that of the record whose setting it is: "strategy", or "strategy.hybrid_configs".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.errors import NotSupportedError, StrategyError
from fleet.json_form import shown
from fleet.strategy.record import StrategyRecord, unknown
from fleet_paddle.strategies.not_built import ANY, NOT_BUILT, Names, NotBuilt


class NotBuiltSettings:
    """What a record asks about settings that are not declared."""

    def names(self, path: str) -> list[str]:
        """The names of a record that are not built."""
        return names_of(path)

    def read(self, record: StrategyRecord, name: str) -> Any:
        """The default of a setting."""
        return default_of(record.__dict__["_path"], name, record._members)

    def take(self, record: StrategyRecord, name: str, value: object) -> dict[str, Any]:
        """Nothing is kept; NotSupportedError unless `value` is the default."""
        refuse(record.__dict__["_path"], name, value, record._members)
        return {}


class KeptSettings(NotBuiltSettings):
    """Of a strategy that keeps them all."""

    def take(self, record: StrategyRecord, name: str, value: object) -> dict[str, Any]:
        """What is to be kept."""
        path, former = record.__dict__["_path"], record.__dict__["_values"].get(name)
        if isinstance(former, Defaults):
            former.update(mapping(f"{path}.{name}", value))
            return {}
        return {name: kept(path, name, value, record._members)}


def keep_what_is_not_built(record: StrategyRecord) -> None:
    """From now on keep also what is given to settings that are not built; `not_built` tells it."""
    record.know(KeptSettings())
    path = record.__dict__["_path"]
    record._keep({name: Defaults(f"{path}.{name}", {}) for name in groups_of(path) if name not in record._members})
    for name in record._members:
        if isinstance(inner := getattr(record, name), StrategyRecord):
            keep_what_is_not_built(inner)


def not_built(record: StrategyRecord) -> Iterator[tuple[str, str, Any]]:
    """What is kept and not built: the path of the record, the name of the setting, its value."""
    for name, value in record.__dict__["_values"].items():
        if isinstance(value, StrategyRecord):
            yield from not_built(value)
        elif isinstance(value, Defaults):
            yield from value.not_built()
        elif name not in record._members:
            yield record.__dict__["_path"], name, value


def names_of(path: str) -> list[str]:
    """The names of a record that are not built."""
    return [name for name in _below(path) if name != ANY]


def default_of(path: str, name: str, built: Iterable[str]) -> Any:
    """What a setting that is not built reads as; UnknownNameError unless there is one. `built`: what else there is."""
    found = _find(path, name, built)
    return found.default if isinstance(found, NotBuilt) else Defaults(f"{path}.{name}")


def groups_of(path: str) -> list[str]:
    """The groups of a record of which nothing is built, or not everything."""
    return [name for name, found in _below(path).items() if not isinstance(found, NotBuilt) and ANY not in found]


def kept(path: str, name: str, value: object, built: Iterable[str]) -> Any:
    """A value of a setting that is not built, to be refused later; StrategyError if it is of another kind."""
    found = _find(path, name, built)
    if not isinstance(found, NotBuilt):
        refuse(path, name, value, built)
        return default_of(path, name, built)
    plain = tuple(value) if isinstance(value, list) else value
    if not _is_of_kind(plain, found.default):
        kind = "list" if isinstance(found.default, tuple) else type(found.default).__name__
        raise StrategyError(f"{path}.{name} must be a {kind}, got {shown(value)}")
    return plain


def _is_of_kind(value: object, default: object) -> bool:
    if default is None:
        return isinstance(value, bool | int | float | str | tuple | None)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)


def mapping(path: str, value: object) -> Mapping[str, Any]:
    """A group as a dict; StrategyError for anything else."""
    if not isinstance(value, Mapping):
        raise StrategyError(f"{path} must be a dict of fields, got {shown(value)}")
    return value


def refuse(path: str, name: str, value: object, built: Iterable[str]) -> None:
    """NotSupportedError unless `value` is the default; of a group, unless all in it are."""
    found = _find(path, name, built)
    if isinstance(found, NotBuilt):
        if not _is(value, found.default):
            default = shown(found.default)
            raise NotSupportedError(f"{path}.{name} is not built: {found.instead}; its default is {default}")
    else:
        for inner, one in mapping(f"{path}.{name}", value).items():
            refuse(f"{path}.{name}", inner, one, ())


def _is(value: object, default: object) -> bool:
    plain = tuple(value) if isinstance(value, list) else value
    return isinstance(plain, bool | int | float | str | tuple | None) and plain == default


def _below(path: str) -> Names:
    """What is not built of a record."""
    strategy, *parts = path.split(".", 2)  # a table's name may have dots
    found = NOT_BUILT if strategy == "strategy" else {}
    for part in parts:
        inner = found.get(part, found.get(ANY, {}))
        found = {} if isinstance(inner, NotBuilt) else inner
    return found


def _find(path: str, name: str, built: Iterable[str]) -> NotBuilt | Names:
    names = _below(path)
    found = names.get(name, names.get(ANY))
    if found is None:
        raise unknown(path, name, [*built, *names])
    return found


class Defaults(Mapping[str, Any]):
    """A group of which nothing is built; with `kept`, what it was given all the same."""

    def __init__(self, path: str, kept: dict[str, Any] | None = None) -> None:
        self.__dict__["_path"] = path
        self.__dict__["_kept"] = kept

    def __getitem__(self, name: str) -> Any:
        found = self.__dict__["_kept"] or {}
        return found[name] if name in found else default_of(self.__dict__["_path"], name, ())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for methods
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(names_of(self.__dict__["_path"]))

    def __len__(self) -> int:
        return len(names_of(self.__dict__["_path"]))

    def __repr__(self) -> str:
        return repr(dict(self))

    def __setattr__(self, name: str, value: object) -> None:
        self.update({name: value})

    __setitem__ = __setattr__

    def update(self, given: Mapping[str, Any]) -> None:
        """Set each, all or none."""
        path, found = self.__dict__["_path"], self.__dict__["_kept"]
        if found is None:
            for name, value in given.items():
                refuse(path, name, value, ())
        else:
            found.update({name: kept(path, name, value, ()) for name, value in given.items()})

    def not_built(self) -> Iterator[tuple[str, str, Any]]:
        """What was given: path, name, value."""
        for name, value in (self.__dict__["_kept"] or {}).items():
            yield self.__dict__["_path"], name, value
