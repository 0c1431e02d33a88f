"""What a value must be: one small class per kind of value, each turning what the user gave into what is kept.

A check is called with any object and returns the clean value (a numpy integer becomes an int, a list a
tuple) or raises `RefusedError`, which the field turns into a StrategyError with the field's path. `wants`
says the same rule in words, for the reference page.

Lists are kept as tuples: a list handed out could be changed behind the check's back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar, Generic, Protocol, TypeVar

T = TypeVar("T")
N = TypeVar("N", bound=float)
T_co = TypeVar("T_co", covariant=True)

LARGEST = 2**63 - 1  # what a TOML file and the wire can hold


class RefusedError(Exception):
    """A value failed its check; `where` is its place inside the value, such as `[1]`."""

    def __init__(self, must: str, value: object, where: str = "") -> None:
        super().__init__(must)
        self.must = must
        self.value = value
        self.where = where


class Check(Protocol[T_co]):
    """A rule for one value."""

    @property
    def wants(self) -> str:
        """The rule in words: `int >= 1`."""

    def __call__(self, value: object) -> T_co: ...


@dataclass(frozen=True)
class Switch:
    """True or False, and nothing that merely looks like it: 1 is more often a slip than a yes."""

    wants: str = "bool"

    def __call__(self, value: object) -> bool:
        if not isinstance(value, bool) and not _is_numpy_bool(value):
            raise RefusedError("True or False", value)
        return bool(value)


def _is_numpy_bool(value: object) -> bool:
    # numpy.bool_ is no bool, unlike its numbers, which register with `numbers`. Asked without importing numpy.
    return getattr(getattr(value, "dtype", None), "kind", None) == "b" and getattr(value, "shape", None) == ()


@dataclass(frozen=True)
class _Bounded(Generic[N]):
    least: N | None = None
    most: N | None = None
    above: N | None = None
    below: N | None = None
    kind: ClassVar[str]

    @property
    def wants(self) -> str:
        return " ".join((self.kind, self._bounds())).strip()

    def _bounds(self) -> str:
        signs = ((">=", self.least), (">", self.above), ("<=", self.most), ("<", self.below))
        return " and ".join(
            f"{sign} {bound:{'d' if type(bound) is int else 'g'}}" for sign, bound in signs if bound is not None
        )

    def _within(self, number: N, value: object) -> N:
        if (
            (self.least is not None and number < self.least)
            or (self.above is not None and number <= self.above)
            or (self.most is not None and number > self.most)
            or (self.below is not None and number >= self.below)
        ):
            raise RefusedError(self._bounds(), value)
        return number


class Whole(_Bounded[int]):
    """An integer within bounds."""

    kind = "int"

    def __call__(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise RefusedError("an int", value)
        number = int(value)
        if abs(number) > LARGEST:
            raise RefusedError(f"between -{LARGEST} and {LARGEST}", value)
        return self._within(number, value)


class Finite(_Bounded[float]):
    """A finite float within bounds; an int is welcome. `above` and `below` exclude their bound."""

    kind = "float"

    def __call__(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise RefusedError("a number", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise RefusedError("a finite number", value)
        return self._within(number, value)


@dataclass(frozen=True)
class Text:
    """Text, free or one of a few words."""

    choices: tuple[str, ...] = ()

    @property
    def wants(self) -> str:
        """The choices, or `str`."""
        return " or ".join(f'"{choice}"' for choice in self.choices) or "str"

    def __call__(self, value: object) -> str:
        if not isinstance(value, str):
            raise RefusedError(self.wants if self.choices else "text", value)
        text = str.__str__(value)  # a plain str, also of a str subclass such as an enum member
        if self.choices and text not in self.choices:
            raise RefusedError(self.wants, value)
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise RefusedError("text that UTF-8 can hold", value)
        return text


@dataclass(frozen=True)
class _Around(Generic[T]):
    inner: Check[T]
    form: ClassVar[str]

    @property
    def wants(self) -> str:
        return self.form.format(self.inner.wants)


class Many(_Around[T]):
    """A list or tuple whose every element passes `inner`."""

    form = "list of {}"

    def __call__(self, value: object) -> tuple[T, ...]:
        # A lone string is a sequence of letters to Python and a forgotten pair of brackets to everyone else.
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise RefusedError(f"a {self.wants}", value)
        clean = []
        for index, element in enumerate(value):
            try:
                clean.append(self.inner(element))
            except RefusedError as refused:
                raise RefusedError(refused.must, refused.value, f"[{index}]{refused.where}") from None
        return tuple(clean)


class Maybe(_Around[T]):
    """None, or what `inner` accepts."""

    form = "{}, or None"

    def __call__(self, value: object) -> T | None:
        return None if value is None else self.inner(value)
