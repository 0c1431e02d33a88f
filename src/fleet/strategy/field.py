"""One setting of the strategy: default, rule, meaning.

Fields are declared as class attributes, so a type checker knows the type of each:

    class LocalSGDConfigs(Group):
        k_steps = whole(1, "is the number of local steps between two averages.", least=1)

`doc` is a predicate: the field's name is its subject. The reference page prints it as it is, an error message
continues "; it" with its first sentence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from fleet.errors import StrategyError
from fleet.json_form import shown
from fleet.strategy.check import Check, Finite, Many, Maybe, RefusedError, Switch, Text, Whole

if TYPE_CHECKING:
    from fleet.strategy.record import StrategyRecord

T = TypeVar("T")
Kept = TypeVar("Kept")
Given = TypeVar("Given", contravariant=True)


class Member:
    """Anything declared in a `StrategyRecord`: a single field, a group of fields, a family of groups."""

    name: str
    doc: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = self.help()

    def help(self) -> str:
        """What `help()` shows for the field: its name and what it does."""
        return f"{self.name} {self.doc}"

    def start(self, path: str) -> object | None:
        """The value a new record holds from the beginning; None when nothing need be kept."""
        raise NotImplementedError


class Spec(Member, Generic[Kept]):
    """What is declared about a field.

    Apart from `Setting`, so that code which holds a Spec in an attribute does not trip over a descriptor.
    """

    def __init__(self, default: Kept, doc: str, check: Check[Kept]) -> None:
        self.default = check(default)
        self.doc = doc
        self.check = check

    def start(self, path: str) -> None:  # noqa: ARG002
        return None  # an unset field reads as its default

    def clean(self, value: object, path: str) -> Kept:
        """The value to keep, or a StrategyError of one line: path, rule, value, meaning."""
        try:
            return self.check(value)
        except RefusedError as refused:
            raise StrategyError(
                f"{path}.{self.name}{refused.where} must be {refused.must}, got {shown(refused.value)}; "
                f"it {self.summary}"
            ) from None

    @property
    def summary(self) -> str:
        """The first sentence of the documentation, without its full stop."""
        return self.doc.split(". ")[0].rstrip(".")


class Readable(Generic[Kept]):
    """Mixed into a member: in a class it is itself, in a record what that keeps."""

    @abstractmethod
    def read(self, values: Mapping[str, Any]) -> Kept:
        """What a record that has set these values keeps."""

    @overload
    def __get__(self, record: None, owner: type) -> Self: ...

    @overload
    def __get__(self, record: StrategyRecord, owner: type) -> Kept: ...

    def __get__(self, record: StrategyRecord | None, owner: type) -> Self | Kept:
        return self if record is None else self.read(record.__dict__["_values"])


class Setting(Readable[Kept], Spec[Kept], Generic[Kept, Given]):
    """A field in a class body: keeps a `Kept` and can be given a `Given`."""

    def read(self, values: Mapping[str, Any]) -> Kept:
        value: Kept = values.get(self.name, self.default)
        return value

    def __set__(self, record: StrategyRecord, value: Given) -> None:
        record._keep({self.name: self.clean(value, record.__dict__["_path"])})


Field = Setting[T, T]
ListField = Setting[tuple[T, ...], Sequence[T]]


def switch(default: bool, doc: str) -> Field[bool]:
    """A field that is True or False."""
    return Setting(default, doc, Switch())


def whole(default: int, doc: str, *, least: int | None = None, most: int | None = None) -> Field[int]:
    """A field that is a whole number within bounds."""
    return Setting(default, doc, Whole(least, most))


def maybe_whole(doc: str, *, least: int | None = None) -> Field[int | None]:
    """A whole number that nobody need set: None is "not set"."""
    return Setting(None, doc, Maybe(Whole(least)))


def number(default: float, doc: str, **bounds: float) -> Field[float]:
    """`bounds`: least, most (inclusive), above, below (exclusive)."""
    return Setting(default, doc, Finite(**bounds))


def maybe_number(doc: str, **bounds: float) -> Field[float | None]:
    """A number that nobody need set: None is "not set"."""
    return Setting(None, doc, Maybe(Finite(**bounds)))


def text(default: str, doc: str, *choices: str) -> Field[str]:
    """A field that is a text, one of `choices` if there are any."""
    return Setting(default, doc, Text(choices))


def words(doc: str) -> ListField[str]:
    """A field that is a list of texts, empty by default."""
    return Setting((), doc, Many(Text()))


def numbers(doc: str, **bounds: float) -> ListField[float]:
    """A field that is a list of numbers within bounds, empty by default."""
    return Setting((), doc, Many(Finite(**bounds)))


AnySpec = Spec[Any]
