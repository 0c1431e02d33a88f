"""Operators that another package defines, beside those of `fleet_programs.operators`.

A package provides, once, what defines its operators; that runs when first an operator is asked for that is not known,
or when all are listed. So importing the package costs nothing before a program needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

Define = Callable[[], None]
"""Imports the modules that register operators."""

_provided: list[Define] = []
_waiting: list[Define] = []
_lock = threading.RLock()
_running: set[Define] = set()
"""What is defining its operators now: it may ask for one of them itself."""


def provide(define: Define) -> None:
    """Let `define` run before an operator is said to be unknown."""
    if define not in _provided:
        _provided.append(define)
        _waiting.append(define)


def define() -> None:
    """Run what was provided and has not run yet; what fails is tried again when next asked for."""
    with _lock:
        for one in [one for one in _waiting if one not in _running]:
            _running.add(one)
            try:
                one()
                _waiting.remove(one)
            finally:
                _running.discard(one)
