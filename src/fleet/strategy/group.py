"""A group of fields that reads as attributes and as a mapping, and can be assigned a dict.

    strategy.a_sync_configs = {"k_steps": 100}      the other fields keep their values
    strategy.a_sync_configs.k_steps                 100
    strategy.a_sync_configs["k_steps"]              100
    dict(strategy.a_sync_configs)                   every field

All values of a dict are checked before the first one is kept: an error leaves the group as it was. Settings that
somebody else knows (`StrategyRecord.know`) are there as well.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from fleet.errors import StrategyError
from fleet.json_form import shown
from fleet.strategy.field import Member, Readable, Spec
from fleet.strategy.record import StrategyRecord

G = TypeVar("G", bound="Group")


class Group(StrategyRecord, Mapping[str, Any]):
    """Base of every `*_configs` class; the members are plain fields."""

    def __init__(self, path: str | None = None, /, **given: Any) -> None:
        super().__init__(path or type(self).__name__)
        self.assign(given)

    def __getitem__(self, name: str) -> Any:
        known = name in self._members or name in self.__dict__["_values"]
        return getattr(self, name) if known else self._read_other(name)

    def __setitem__(self, name: str, value: object) -> None:
        self.assign({name: value})

    def __iter__(self) -> Iterator[str]:
        others = self.__dict__.get("_others")
        return iter((*self._members, *(others.names(self.__dict__["_path"]) if others else ())))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return _plain(self) == _plain(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{leaf.dotted}={shown(leaf.value)}" for leaf in self.leaves())
        return f"{type(self).__name__}({fields})"

    def cleaned(self, given: object) -> dict[str, Any]:
        """The checked form of a dict of fields; changes nothing."""
        path = self.__dict__["_path"]
        if not isinstance(given, Mapping):
            raise StrategyError(f"{path} must be a dict, got {shown(given)}; its fields are {', '.join(self)}")
        clean = {}
        for name, value in given.items():
            member = self._members.get(name)
            if isinstance(member, Spec):
                clean[name] = member.clean(value, path)
            else:
                clean |= self._take_other(name, value)
        return clean

    def assign(self, given: object) -> None:
        """Set the given fields, all or none."""
        self._keep(self.cleaned(given))

    def update(self, given: Mapping[str, Any]) -> None:
        """The same as assigning the dict to the group."""
        self.assign(given)


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, so that a group equals a dict of all its fields."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


class GroupField(Readable[G], Member):
    """Declares a group inside the strategy: `amp_configs = GroupField(AMPConfigs, "tunes `amp`.")`."""

    def __init__(self, group: type[G], doc: str) -> None:
        self.group = group
        self.doc = doc

    def start(self, path: str) -> G:
        return self.group(path)

    def help(self) -> str:
        return f"{super().help()}\n\n{self.group.describe()}"

    def read(self, values: Mapping[str, Any]) -> G:
        group: G = values[self.name]
        return group

    def __set__(self, record: StrategyRecord, value: Mapping[str, Any]) -> None:
        self.__get__(record, type(record)).assign(value)
