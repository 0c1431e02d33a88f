"""One exception tree for the whole package.

    FleetError                      everything raised on purpose
    ├── UsageError      ValueError  an argument or a combination of arguments that cannot work
    │   ├── StrategyError           a DistributedStrategy field set to a value it cannot have
    │   ├── RoleError               a process cannot learn who it is
    │   │   └── VariableError       one environment variable is missing or malformed
    │   └── EndpointError           a string that is not HOST:PORT, a duplicate, a port in use
    ├── UsageTypeError  TypeError   an argument of the wrong type
    ├── UnknownFieldError TypeError a field name that does not exist; carries the nearest one
    ├── NotSupportedError NotImplementedError   valid, but not built yet
    ├── NotReadyError   RuntimeError            a call that came before fleet.init()
    ├── CommunicationError RuntimeError         a peer went away or refused
    │   ├── MovedError                          other servers have taken the place of the one that was called
    │   └── OutdatedError                       what was sent belongs to a former life, or to a step that is over
    ├── CheckpointError OSError                 a checkpoint that cannot be written, found, trusted or used here
    ├── StreamError     RuntimeError            a stream of changes that cannot be followed or published as it is
    ├── DivergedError   ArithmeticError         a loss that is no number any more
    └── DeadlineError   TimeoutError            a wait that ran out; says what it waited for

Each error is one line that names the thing, the value and the remedy. The built-in parent is there so that
code which only knows Python catches it too. Where docs/errors.md knows more than the line says, a traceback ends with
where that stands.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from fleet._version import __version__

PAGE = "docs/errors.md"
"""The page that explains errors, in the documentation of this version."""
_TEXTS = Path(__file__).with_name("error_texts.json")
"""The entries of that page: the class in whose section each stands, its anchor, and the texts it is for."""


class FleetError(Exception):
    """Everything Fleet raises on purpose."""

    @property
    def page(self) -> str:
        """Where the documentation explains this error: at the entry of its text, else at its class."""
        return f"{PAGE}#{_entry(self) or _section(type(self))}"

    @property
    def see(self) -> str:
        """One line that leads to the entry of this error; empty where the error says all that the page knows."""
        return f"see {self.page} (fleet {__version__})" if _entry(self) else ""

    # Notes are printed below an error. Ours is made when somebody asks, for most errors are caught.
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        return [*self.__dict__.get("_notes", ()), *filter(None, [self.see])]

    def add_note(self, note: str, /) -> None:
        """Add a line of your own below the error, as Python does."""
        self.__dict__.setdefault("_notes", []).append(note)


class UsageError(FleetError, ValueError):
    """An argument, or a combination of arguments, that cannot work."""


class StrategyError(UsageError):
    """A strategy field was given a value it cannot have."""


class RoleError(UsageError):
    """A process cannot learn its role: nothing says it, or two sources disagree."""


class VariableError(RoleError):
    """One environment variable is missing or malformed."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name} {message}")
        self.name = name


class EndpointError(UsageError):
    """A string that is not HOST:PORT, a duplicate endpoint, or a port that is in use."""


class UsageTypeError(FleetError, TypeError):
    """An argument of the wrong type."""


class UnknownFieldError(FleetError, TypeError):
    """A field that does not exist was read or set."""


class NotSupportedError(FleetError, NotImplementedError):
    """Valid input for a feature that is not built yet."""


class NotReadyError(FleetError, RuntimeError):
    """A call that needs `fleet.init()` came before it."""


class CommunicationError(FleetError, RuntimeError):
    """A peer went away, refused or answered nonsense."""

    retryable: bool = False
    """Whether the same call may succeed a moment later."""
    is_answer: bool = False
    """Whether the peer itself has said so: it can be reached."""


class MovedError(CommunicationError):
    """Other servers have taken the place of the one that was called; who called looks for them."""


class OutdatedError(CommunicationError):
    """What was sent belongs to the past: to a former life of a worker, or to a step that the servers have left."""


class CheckpointError(FleetError, OSError):
    """A checkpoint cannot be written, is not there, is damaged, or does not fit what it is loaded into."""


class StreamError(FleetError, RuntimeError):
    """A stream of changes is not there, is of another format or model, or cannot be gone on with as it is."""


class DivergedError(FleetError, ArithmeticError):
    """The loss is not a number any more, and no smaller scale would help."""


class DeadlineError(FleetError, TimeoutError):
    """A wait ran out of time."""


def _section(kind: type[FleetError]) -> str:
    """The anchor of the class as the tree above has it."""
    return next(_anchor(one) for one in kind.__mro__ if one.__module__ == __name__)


def _entry(error: FleetError) -> str | None:
    """The anchor of the entry that has this text: those of its class first, then the one that says most of it."""
    text, names = str(error), [_anchor(kind) for kind in type(error).__mro__]
    found = [
        (names.index(section) if section in names else len(names), -size, anchor)
        for expression, size, section, anchor in _patterns()
        if (section in names or size >= _ENOUGH) and expression.search(text)
    ]
    return min(found)[2] if found else None


def _anchor(kind: type) -> str:
    return kind.__name__.lower()


_ENOUGH = 16
"""How many letters of a text, at least, tell an error of another class than that whose section lists it."""


@cache
def _patterns() -> list[tuple[re.Pattern[str], int, str, str]]:
    """For each text: its expression, how much it says, and where it stands, as class and entry."""
    try:
        entries = json.loads(_TEXTS.read_text(encoding="utf-8"))
    except OSError:  # such as no file handle left: an error is told all the same
        return []
    return [
        (_pattern(text), len(text.replace("\N{HORIZONTAL ELLIPSIS}", "")), section, anchor)
        for section, anchor, texts in entries
        for text in texts
    ]


def _pattern(text: str) -> re.Pattern[str]:
    """A text of the page as an expression: `…` is anything; it begins an error, or what one quotes, and may go on.

    >>> bool(_pattern("cannot bind …: …").search("server 1: cannot bind 10.0.0.1:80: permission denied"))
    True
    """
    return re.compile("(?:^|: )" + ".*?".join(re.escape(part) for part in text.split("…")), re.DOTALL)
