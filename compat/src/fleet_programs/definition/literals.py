"""Values and names in a program's text: how they are written, and a cursor that reads them back from one line.

A value is none, true, false, a whole number, a float (`repr`, so that it reads back exactly; also inf, -inf, nan), a
quoted string or a list of values. A name stands bare where it can, else quoted.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

import numpy as np

from fleet.errors import UsageError, UsageTypeError

MAX_DEPTH = 16
"""Lists within lists; no attribute needs more."""

_BARE = re.compile(r"[A-Za-z0-9_.@/+-]+")
_TOKEN = re.compile(r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<mark>[{}()\[\],=:])|(?P<word>[^\s"{}()\[\],=:]+))""")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = {"none": None, "true": True, "false": False, "inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def plain(value: Any, what: str, depth: int = 0) -> Any:
    """A value as the forms keep it: tuples become lists, numpy's numbers Python's; UsageTypeError for other types."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list | tuple):
        if depth == MAX_DEPTH:
            raise UsageError(f"{what} has more than {MAX_DEPTH} lists within each other")
        return [plain(item, what, depth + 1) for item in value]
    for kind in (int, float, str):
        if isinstance(value, kind):  # an enumeration, a string of numpy
            return kind(value)
    raise UsageTypeError(f"{what} must be a number, text, or a list of such to be written, got {type(value).__name__}")


def write_value(value: Any) -> str:
    """A plain value as text.

    >>> write_value([1, 0.1, True, "a b", None])
    '[1, 0.1, true, "a b", none]'
    """
    if isinstance(value, list):
        return f"[{', '.join(map(write_value, value))}]"
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def write_name(name: str) -> str:
    """A name, quoted if it has to be.

    >>> write_name("fc_0.w_0@GRAD"), write_name("two words")
    ('fc_0.w_0@GRAD', '"two words"')
    """
    return name if _BARE.fullmatch(name) else quoted(name)


def quoted(value: Any) -> str:
    """JSON on one line; what cannot be printed is escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True)
    return text if text.isprintable() else json.dumps(value, allow_nan=False, sort_keys=True)


def load_json(text: str) -> Any:
    """The value of a JSON text; UsageError if it is not JSON, or if readers could disagree about its value."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_distinct)
    except RecursionError:
        raise UsageError("more values within each other than can be read") from None
    except ValueError as error:
        raise UsageError(f"this is not JSON: {error}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


class Token(NamedTuple):
    """A piece of a line; `kind` is string, mark, word, or end."""

    kind: str
    text: str


END = Token("end", "")


class Cursor:
    """One line of a text, read from left to right; errors are UsageErrors that begin with `line N`."""

    def __init__(self, line: str, number: int) -> None:
        self.number = number
        self._tokens: list[Token] = []
        self._next = 0
        at, end = 0, len(line.rstrip())
        while at < end:
            match = _TOKEN.match(line, at, end)
            if match is None:
                raise self.error(f"a string that does not end: {shorten(line[at:].lstrip())}")
            assert match.lastgroup is not None
            self._tokens.append(Token(match.lastgroup, match[match.lastgroup]))
            at = match.end()

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further on, which stays; `END` behind the last."""
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else END

    def take(self) -> Token:
        """The next token, which is passed."""
        token = self.peek()
        self._next += 1
        return token

    def at_mark(self, mark: str) -> bool:
        """Whether this mark comes next."""
        return self.peek() == ("mark", mark)

    def accept(self, mark: str) -> bool:
        """Take a mark if it comes next."""
        found = self.at_mark(mark)
        self._next += found
        return found

    def expect(self, mark: str) -> None:
        """Pass a mark; UsageError if something else comes next."""
        if not self.accept(mark):
            raise self.expected(repr(mark))

    def end(self, what: str = "the end of the line") -> None:
        """UsageError if the line goes on."""
        if self.peek() is not END:
            raise self.expected(what)

    def name(self, what: str) -> str:
        """A bare or quoted name."""
        token = self.peek()
        if token.kind == "word":
            self._next += 1
            return token.text
        if token.kind == "string":
            return self._string()
        raise self.expected(what)

    def integer(self, what: str) -> int:
        """A whole number; `what` names it in the error if there is none."""
        token = self.peek()
        if token.kind != "word" or not _INTEGER.fullmatch(token.text):
            raise self.expected(what)
        self._next += 1
        return self._integer(token.text)

    def value(self, depth: int = 0) -> Any:
        """A literal."""
        if self.accept("["):
            if depth == MAX_DEPTH:
                raise self.error(f"more than {MAX_DEPTH} lists within each other")
            return self.listed(lambda: self.value(depth + 1), "]")
        token = self.peek()
        if token.kind == "string":
            return self._string()
        if token.kind == "word":
            self._next += 1
            if token.text in _WORDS:
                return _WORDS[token.text]
            if _INTEGER.fullmatch(token.text):
                return self._integer(token.text)
            if _FLOAT.fullmatch(token.text):
                return float(token.text)
            self._next -= 1
        raise self.expected("a number, a quoted string, true, false, none or a list")

    def listed(self, one: Any, close: str) -> list[Any]:
        """What stands between commas until a closing mark, which is taken too."""
        found: list[Any] = []
        while not self.accept(close):
            if found:
                self.expect(",")
            found.append(one())
        return found

    def expected(self, what: str) -> UsageError:
        """The error about what comes next where `what` should."""
        token = self.peek()
        return self.error(f"expected {what}, got {'the end of the line' if token is END else shorten(token.text)}")

    def error(self, message: str) -> UsageError:
        """A UsageError that begins with the number of the line."""
        return UsageError(f"line {self.number}: {message}")

    def _string(self) -> str:
        token = self.take()
        try:
            text = json.loads(token.text)
        except ValueError:
            raise self.error(f"{shorten(token.text)} is not a quoted string as JSON has it") from None
        assert isinstance(text, str)
        return text

    def _integer(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:  # Python refuses to convert very long ones
            raise self.error(f"a number of {len(text)} digits is too long") from None


def shorten(text: str) -> str:
    """Text for an error: quoted, and not longer than a line should be."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
