"""Groups of one kind by name: the configuration of each table.

    strategy.sparse_table_configs = {"user": {"sparse_embedx_dim": 16}}
    strategy.sparse_table_configs["user"].sparse_embedx_dim         16
    strategy.sparse_table_configs.of("item").sparse_embedx_dim      8, the default

As with a group, an assignment changes what it names, and all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, overload

from fleet.errors import StrategyError
from fleet.strategy.field import Member, shown
from fleet.strategy.group import Group
from fleet.strategy.record import Leaf, Record
from fleet.strategy.unknown import unknown

G = TypeVar("G", bound=Group)


class Family(Mapping[str, G]):
    """Groups of one kind, one per name: the configuration of each table."""

    def __init__(self, group: type[G], path: str) -> None:
        self._group = group
        self._path = path
        self._groups: dict[str, G] = {}

    def __getitem__(self, name: str) -> G:
        if name not in self._groups:
            raise unknown(self._path, name, self._groups, "table")
        return self._groups[name]

    def __setitem__(self, name: str, given: Mapping[str, Any]) -> None:
        self.assign({name: given})

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __repr__(self) -> str:
        return repr(self._groups)

    def of(self, name: str) -> G:
        """What a table uses, for reading: what was set for it, or the defaults, frozen, if nothing was."""
        if name in self._groups:
            return self._groups[name]
        group = self._fresh(name)
        group._freeze(f"nothing was set for this table; write {self._path}[{name!r}] = {{...}}")
        return group

    def _fresh(self, name: str) -> G:
        return self._group(f"{self._path}.{name}")

    def assign(self, given: object) -> None:
        """Set the given fields of the given tables, all or none; a table not named stays as it is."""
        if not isinstance(given, Mapping):
            raise StrategyError(f"{self._path} must be a dict of tables, got {shown(given)}; write {self._example}")
        ready = []
        for name, fields in given.items():
            if not isinstance(name, str) or not name or not name.isprintable():
                raise StrategyError(f"{self._path} must name tables by text, got {shown(name)}; write {self._example}")
            if not isinstance(fields, Mapping):
                given_text = f"must be a dict of fields, got {shown(fields)}"
                raise StrategyError(f"{self._path}.{name} {given_text}; write {self._example}")
            group = self._groups[name] if name in self._groups else self._fresh(name)
            ready.append((name, group, group.cleaned(fields)))
        for name, group, clean in ready:
            group._keep(clean)
            self._groups[name] = group

    def update(self, given: Mapping[str, Mapping[str, Any]]) -> None:
        """The same as assigning the dict to the family."""
        self.assign(given)

    def leaves(self) -> Iterator[Leaf]:
        for name, group in self._groups.items():
            for leaf in group.leaves():
                yield leaf._replace(path=(name, *leaf.path))

    @property
    def _example(self) -> str:
        return f'{{"my_table": {{"{next(iter(self._group._members))}": ...}}}}'


class FamilyField(Member, Generic[G]):
    """Declares a family; with `alias_of` it is a second name for another family."""

    def __init__(self, group: type[G], doc: str, alias_of: str = "") -> None:
        self.group = group
        self.doc = doc
        self.alias_of = alias_of

    def start(self, path: str) -> Family[G] | None:
        return None if self.alias_of else Family(self.group, path)

    def help(self) -> str:
        return super().help() if self.alias_of else f"{super().help()}\n\n{self.group.describe()}"

    @overload
    def __get__(self, record: None, owner: type) -> Self: ...

    @overload
    def __get__(self, record: Record, owner: type) -> Family[G]: ...

    def __get__(self, record: Record | None, owner: type) -> Self | Family[G]:
        if record is None:
            return self
        family: Family[G] = record.__dict__["_values"][self.alias_of or self.name]
        return family

    def __set__(self, record: Record, value: Mapping[str, Mapping[str, Any]]) -> None:
        self.__get__(record, type(record)).assign(value)
