"""A record holds the values of declared fields; all other names are refused, unless somebody else knows them.

Values live in one dictionary that only has what was set, so a new record costs nothing and shares nothing: defaults are
immutable and stay in the declarations. deepcopy and pickle work on it without help. A group inside a record reads as
attributes and as a mapping, and can be assigned a dict:

    strategy.a_sync_configs = {"k_steps": 100}      the other fields keep their values
    strategy.a_sync_configs.k_steps                 100
    strategy.a_sync_configs["k_steps"]              100
    dict(strategy.a_sync_configs)                   every field

All values of a dict are checked before the first one is kept: an error leaves the group as it was. Settings that
somebody else knows (`StrategyRecord.know`) are there as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, TypeVar

from fleet.errors import StrategyError, UnknownFieldError
from fleet.json_form import shown
from fleet.strategy.field import AnySpec, Member, Readable, Spec


class Leaf(NamedTuple):
    """One field of a record or of a group inside it, with its present value."""

    path: tuple[str, ...]
    field: AnySpec
    value: Any

    @property
    def dotted(self) -> str:
        """The path as users write it: `amp_configs.dtype`."""
        return ".".join(self.path)

    @property
    def differs(self) -> bool:
        """Whether the value is another than the default."""
        return bool(self.value != self.field.default)


class OtherSettings(Protocol):
    """Settings that are not declared, and are known all the same: those of a record at `path`, such as `strategy`."""

    def names(self, path: str) -> list[str]:
        """Their names."""

    def read(self, record: StrategyRecord, name: str) -> Any:
        """What one reads as; UnknownNameError unless it is known."""

    def take(self, record: StrategyRecord, name: str, value: object) -> dict[str, Any]:
        """What the record is to keep of it, by name; an error if it is not to be had."""


class StrategyRecord:
    """Base of the strategy and of each group in it."""

    _members: ClassVar[dict[str, Member]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Mixins in the order they are listed, then the class itself: the order of the saved file.
        classes = (*cls.__mro__[1:], cls)
        cls._members = {
            name: member for base in classes for name, member in vars(base).items() if isinstance(member, Member)
        }

    def __init__(self, path: str) -> None:
        values = {name: member.start(f"{path}.{name}") for name, member in self._members.items()}
        self.__dict__["_path"] = path
        self.__dict__["_values"] = {name: value for name, value in values.items() if value is not None}

    if not TYPE_CHECKING:  # a checker that saw these two would believe in every misspelt field

        def __setattr__(self, name: str, value: object) -> None:
            if name in self._members:
                super().__setattr__(name, value)
            else:
                self._keep(self._take_other(name, value))

        def __getattr__(self, name: str) -> Any:
            # Reached only when ordinary lookup failed. copy and pickle probe for dunder methods, also on an
            # object whose dictionary is still empty.
            if name.startswith("__"):
                raise AttributeError(name)
            if name in (values := self.__dict__.get("_values", {})):
                return values[name]
            return self._read_other(name)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.__dict__['_path']}.{name} cannot be deleted; assign its default instead")

    def know(self, others: OtherSettings) -> None:
        """From now on ask `others` about settings that are not declared, here and in all groups."""
        self.__dict__["_others"] = others
        for one in self.__dict__["_values"].values():
            if isinstance(one, StrategyRecord):
                one.know(others)

    def _read_other(self, name: str) -> Any:
        """What a setting that is not declared reads as; UnknownNameError if nobody knows it."""
        if (others := self.__dict__.get("_others")) is None:
            raise unknown(self.__dict__.get("_path", "strategy"), name, self._members)
        return others.read(self, name)

    def _take_other(self, name: str, value: object) -> dict[str, Any]:
        """What is to be kept of a setting that is not declared; UnknownNameError if nobody knows it."""
        if (others := self.__dict__.get("_others")) is None:
            raise unknown(self.__dict__["_path"], name, self._members)
        taken: dict[str, Any] = others.take(self, name, value)
        return taken

    def _keep(self, clean: Mapping[str, Any]) -> None:
        """Every write of checked values passes here."""
        if clean and (reader := self.__dict__.get("_reader")):
            raise StrategyError(
                f"{self.__dict__['_path']}.{next(iter(clean))} was set after {reader}, which has read the strategy; "
                "set it before that call"
            )
        self.__dict__["_values"].update(clean)

    def close(self, reader: str) -> None:
        """Refuse every later setting, for this call has read them; with "" take them again."""
        self.__dict__["_reader"] = reader
        for one in self.__dict__["_values"].values():
            if isinstance(one, StrategyRecord):
                one.close(reader)

    @property
    def is_closed(self) -> bool:
        """Whether a call has read it, so that nothing can be set."""
        return bool(self.__dict__.get("_reader"))

    def __getstate__(self) -> dict[str, Any]:
        """A copy, which nobody has read, can be set."""
        return {name: value for name, value in self.__dict__.items() if name != "_reader"}

    def is_set(self, name: str) -> bool:
        """Whether somebody has set a field of this record, be it to its default."""
        return name in self.__dict__["_values"]

    @classmethod
    def describe(cls) -> str:
        """A line for each field: its name and what it does."""
        return "\n".join(f"{name} {member.doc}" for name, member in cls._members.items())

    def __copy__(self) -> Self:
        return deepcopy(self)  # a shallow copy would share the groups, and with them every later change

    def leaves(self) -> Iterator[Leaf]:
        """Every field with its value, groups opened, in declaration order."""
        for name, member in self._members.items():
            value = getattr(self, name)
            if isinstance(member, Spec):
                yield Leaf((name,), member, value)
            else:
                for leaf in value.leaves():
                    yield leaf._replace(path=(name, *leaf.path))

    def changed(self) -> list[Leaf]:
        """The fields whose value is not the default."""
        return [leaf for leaf in self.leaves() if leaf.differs]


class UnknownNameError(UnknownFieldError, AttributeError, KeyError):
    """An UnknownFieldError that attribute and key lookups understand.

    hasattr(), copy and pickle probe attributes and expect AttributeError; `get` and `in` expect KeyError.
    """

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show its message in quotes


def unknown(
    path: str,
    name: object,
    known: Iterable[str],
    what: str = "field",
    listed_by: str = "help(fleet.DistributedStrategy)",
) -> UnknownNameError:
    """The error to raise when `path` has no field `name`: one line with up to three near names.

    Without one all are listed or, where they are many, the reader is sent to what lists them.
    """
    from difflib import get_close_matches  # which only a mistake needs

    names = list(known)
    near = get_close_matches(name, names, n=3) if isinstance(name, str) else []
    if near:
        advice = f"did you mean {' or '.join(map(repr, near))}?"
    elif len(names) <= 12:
        advice = f"it has {', '.join(names)}" if names else "it is empty"
    else:
        advice = f"{listed_by} lists them all"
    return UnknownNameError(f"{path} has no {what} {name!r}; {advice}")


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
