"""The error for a field that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

from fleet.errors import UnknownFieldError


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
    names = list(known)
    near = get_close_matches(name, names, n=3) if isinstance(name, str) else []
    if near:
        advice = f"did you mean {' or '.join(map(repr, near))}?"
    elif len(names) <= 12:
        advice = f"it has {', '.join(names)}" if names else "it is empty"
    else:
        advice = f"{listed_by} lists them all"
    return UnknownNameError(f"{path} has no {what} {name!r}; {advice}")
