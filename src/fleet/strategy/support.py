"""What a strategy does with a setting that is not built: it reads as its default, and takes nothing else.

    strategy.hybrid_configs["mp_degree"]            1
    strategy.hybrid_configs = {"mp_degree": 1}      changes nothing
    strategy.hybrid_configs = {"mp_degree": 2}      NotSupportedError, with what to do instead

`path` is that of the record whose setting it is: "strategy", or "strategy.hybrid_configs".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.errors import NotSupportedError, StrategyError
from fleet.strategy.field import shown
from fleet.strategy.not_built import ANY, NOT_BUILT, Names, NotBuilt
from fleet.strategy.unknown import unknown


def names_of(path: str) -> list[str]:
    """The names of a record that are not built."""
    return [name for name in _below(path) if name != ANY]


def default_of(path: str, name: str, built: Iterable[str]) -> Any:
    """What a setting that is not built reads as; UnknownNameError unless there is one. `built`: what else there is."""
    found = _find(path, name, built)
    return found.default if isinstance(found, NotBuilt) else Defaults(f"{path}.{name}")


def refuse(path: str, name: str, value: object, built: Iterable[str]) -> None:
    """NotSupportedError unless `value` is the default; of a group, unless all in it are."""
    found = _find(path, name, built)
    if isinstance(found, NotBuilt):
        if not _is(value, found.default):
            default = shown(found.default)
            raise NotSupportedError(f"{path}.{name} is not built: {found.instead}; its default is {default}")
    elif isinstance(value, Mapping):
        for inner, one in value.items():
            refuse(f"{path}.{name}", inner, one, ())
    else:
        raise StrategyError(f"{path}.{name} must be a dict of fields, got {shown(value)}")


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
    """A group of which nothing is built."""

    def __init__(self, path: str) -> None:
        self.__dict__["_path"] = path

    def __getitem__(self, name: str) -> Any:
        return default_of(self.__dict__["_path"], name, ())

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
        refuse(self.__dict__["_path"], name, value, ())

    __setitem__ = __setattr__

    def update(self, given: Mapping[str, Any]) -> None:
        """The same as setting each."""
        for name, value in given.items():
            self[name] = value
