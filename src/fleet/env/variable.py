"""How one environment variable is read: its text becomes a value of its kind, or an error that names it."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fleet.errors import VariableError

T = TypeVar("T")

Environ = Mapping[str, str]


@dataclass(frozen=True)
class EnvVariable(Generic[T]):
    """One environment variable: its name, how its text becomes a value, and what it is for."""

    name: str
    parse: Callable[[str], T]
    kind: str
    doc: str
    secret: bool = False

    def get(self, environ: Environ | None = None) -> T | None:
        """The value, or None when unset or empty; a malformed value raises VariableError."""
        text = self.text(environ)
        if text is None:
            return None
        try:
            return self.parse(text)
        except ValueError:
            shown = "the value it has is not shown" if self.secret else f"got {text!r}"
            raise VariableError(self.name, f"must be {self.kind}, {shown}") from None

    def text(self, environ: Environ | None = None) -> str | None:
        """The raw text, or None when unset or empty."""
        return (os.environ if environ is None else environ).get(self.name, "").strip() or None

    def is_set(self, environ: Environ | None = None) -> bool:
        """Whether the variable is set at all, even to an empty text, which means something to some programs."""
        return self.name in (os.environ if environ is None else environ)

    def put(self, value: str) -> None:
        """Set it for this process, the libraries in it, and its children."""
        os.environ[self.name] = value

    def require(self, why: str, environ: Environ | None = None) -> T:
        """The value; VariableError with the reason when unset."""
        value = self.get(environ)
        if value is None:
            raise VariableError(self.name, f"is not set; {why}")
        return value


_TABLE: dict[str, EnvVariable[object]] = {}


def _add(name: str, parse: Callable[[str], T], kind: str, doc: str, secret: bool = False) -> EnvVariable[T]:
    variable = EnvVariable(name, parse, kind, doc, secret)
    _TABLE[name] = variable  # type: ignore[assignment]
    return variable


def text(name: str, doc: str) -> EnvVariable[str]:
    """A variable whose value is its text."""
    return _add(name, str, "text", doc)


def secret(name: str, doc: str) -> EnvVariable[str]:
    """A word that no message ever shows; it must fit into a header of a request, hence plain ASCII."""

    def parse(text: str) -> str:
        if not (text.isascii() and text.isprintable()):
            raise ValueError
        return text

    return _add(name, parse, "printable ASCII text", doc, secret=True)


def count(name: str, doc: str, least: int = 0) -> EnvVariable[int]:
    """A variable that is a whole number."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise ValueError(text)
        return int(text)

    return _add(name, parse, f"a whole number >= {least}", doc)


def size(name: str, doc: str) -> EnvVariable[int]:
    """A variable that is a number of bytes, with or without a unit: 500M, 8G."""

    def parse(text: str) -> int:
        number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
        value = float(number) * 1024 ** " KMGT".index(unit or " ")
        if not (number.isascii() and 1 <= value < 1 << 63):
            raise ValueError(text)
        return int(value)

    return _add(name, parse, "a number of bytes > 0, such as 500M or 8G", doc)


def folders(name: str, doc: str) -> EnvVariable[tuple[str, ...]]:
    """A variable that lists absolute folders, separated by colons."""

    def parse(text: str) -> tuple[str, ...]:
        parts = tuple(text.split(os.pathsep))
        if not all(os.path.isabs(part) for part in parts):
            raise ValueError(text)
        return parts

    return _add(name, parse, "absolute folders, separated by colons", doc)


def seconds(name: str, doc: str) -> EnvVariable[float]:
    """A variable that is a number of seconds above 0."""

    def parse(text: str) -> float:
        value = float(text)
        if not 0 < value < float("inf"):
            raise ValueError(text)
        return value

    return _add(name, parse, "a number of seconds > 0", doc)


def choice(name: str, choices: tuple[str, ...], doc: str, also: tuple[str, ...] = ()) -> EnvVariable[str]:
    """`also`: words that are understood but not offered, so that the reader can say why it refuses them."""

    def parse(text: str) -> str:
        if text.upper() not in (*choices, *also):
            raise ValueError(text)
        return text.upper()

    return _add(name, parse, "one of " + ", ".join(choices), doc)


def variables() -> Iterator[EnvVariable[object]]:
    """The whole table, in the order it is written."""
    return iter(_TABLE.values())


def misspelt(environ: Environ | None = None) -> dict[str, str]:
    """The variables that are set and unknown, but nearly the name of one of Fleet's, with that name."""
    known = [variable.name for variable in variables() if variable.name.startswith("FLEET_")]
    names = [name for name in (os.environ if environ is None else environ) if name.startswith("FLEET_")]
    if not (unknown := [name for name in names if name not in known]):
        return {}
    from difflib import get_close_matches  # which only a mistake needs

    near = {name: get_close_matches(name, known, 1, 0.85) for name in unknown}
    return {name: found[0] for name, found in near.items() if found}


def inherited() -> dict[str, str]:
    """A copy of this process's environment, for a child."""
    return dict(os.environ)


def become(environ: Environ) -> None:
    """Have this process, and what it imports from now on, find these variables and no others."""
    os.environ.clear()
    os.environ.update(environ)


def prefer(name: str, value: str) -> None:
    """Set a variable that a library of this process reads, unless the user has set it."""
    os.environ.setdefault(name, value)
