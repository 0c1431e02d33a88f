"""A record holds the values of declared fields; names that are not built have their defaults, all others are refused.

Values live in one dictionary that only has what was set, so a new record costs nothing and shares nothing:
defaults are immutable and stay in the declarations. deepcopy and pickle work on it without help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

from fleet.errors import StrategyError
from fleet.strategy.field import AnySpec, Member, Spec
from fleet.strategy.support import Defaults, default_of, groups_of, kept, mapping, refuse


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
                self._keep(self._other(name, value))

        def __getattr__(self, name: str) -> Any:
            # Reached only when ordinary lookup failed. copy and pickle probe for dunder methods, also on an
            # object whose dictionary is still empty.
            if name.startswith("__"):
                raise AttributeError(name)
            if name in (values := self.__dict__.get("_values", {})):
                return values[name]
            return default_of(self.__dict__.get("_path", "strategy"), name, self._members)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.__dict__['_path']}.{name} cannot be deleted; assign its default instead")

    def keep_what_is_not_built(self) -> None:
        """From now on keep also what is given to settings that are not built; `not_built` tells it."""
        path = self.__dict__["_path"]
        self.__dict__["_keeps_all"] = True
        self._keep({name: Defaults(f"{path}.{name}", {}) for name in groups_of(path) if name not in self._members})
        for name in self._members:
            if isinstance(inner := getattr(self, name), StrategyRecord):
                inner.keep_what_is_not_built()

    def not_built(self) -> Iterator[tuple[str, str, Any]]:
        """What is kept and not built: the path of the record, the name of the setting, its value."""
        for name, value in self.__dict__["_values"].items():
            if isinstance(value, StrategyRecord | Defaults):
                yield from value.not_built()
            elif name not in self._members:
                yield self.__dict__["_path"], name, value

    def _other(self, name: str, value: object) -> dict[str, Any]:
        """What is to be kept of a setting that is not declared: nothing, unless this record keeps all."""
        path = self.__dict__["_path"]
        if not self.__dict__.get("_keeps_all"):
            refuse(path, name, value, self._members)
            return {}
        former = self.__dict__["_values"].get(name)
        if isinstance(former, Defaults):
            former.update(mapping(f"{path}.{name}", value))
            return {}
        return {name: kept(path, name, value, self._members)}

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
