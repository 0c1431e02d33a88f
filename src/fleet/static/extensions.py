"""Operators that another package defines, beside those of `fleet.static.ops`.

A package provides, once, what defines its operators; that runs when first an operator is asked for that is not known,
or when all are listed. So importing the package costs nothing before a program needs it.
"""

from __future__ import annotations

from collections.abc import Callable

Define = Callable[[], None]
"""Imports the modules that register operators."""

_provided: list[Define] = []
_waiting: list[Define] = []


def provide(define: Define) -> None:
    """Let `define` run before an operator is said to be unknown."""
    if define not in _provided:
        _provided.append(define)
        _waiting.append(define)


def define() -> None:
    """Run what was provided and has not run yet."""
    while _waiting:
        _waiting.pop(0)()
