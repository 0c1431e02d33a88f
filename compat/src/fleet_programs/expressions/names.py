"""Names that do not clash: `fc_0`, `fc_1`, ..., counted for each stem, as PaddlePaddle counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GRAD = "@GRAD"
LOD = "@LOD"


class Names:
    """One count for each stem."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._counts: Counter[str] = Counter()

    def make(self, stem: str) -> str:
        """The next name of a stem."""
        number = self._counts[stem]
        self._counts[stem] += 1
        return f"{self._prefix}{stem}_{number}"


_names = Names()
_scopes: list[str] = []
_scope_counts: list[Counter[str]] = [Counter()]


def generate(stem: str, is_taken: Callable[[str], bool] | None = None) -> str:
    """A new name that begins with `stem`; those that `is_taken` knows are passed over.

    A program that was read from a file has names that were not counted here.

    >>> with guard():
    ...     generate("fc"), generate("fc"), generate("tmp")
    ('fc_0', 'fc_1', 'tmp_0')
    """
    name = _names.make(stem)
    while is_taken is not None and is_taken(name):
        name = _names.make(stem)
    return name


def switch(names: Names | None = None) -> Names:
    """Count by `names` from now on, or from 0; what counted until now, to switch back to."""
    global _names
    before, _names = _names, Names() if names is None else names
    return before


@contextmanager
def guard(prefix: str | Names | None = None) -> Iterator[None]:
    """Inside, names are counted from 0 again and begin with `prefix`; afterwards counting goes on as before.

    What `switch` gave may be the prefix: then names go on where it was.
    """
    before = switch(prefix if isinstance(prefix, Names) else Names(prefix or ""))
    try:
        yield
    finally:
        switch(before)


@contextmanager
def name_scope(prefix: str) -> Iterator[None]:
    """Inside, operators carry `prefix/` as their scope, for people who read the program; names stay as they are."""
    counts = _scope_counts[-1]
    label = prefix if not counts[prefix] else f"{prefix}_{counts[prefix]}"
    counts[prefix] += 1
    _scopes.append(label)
    _scope_counts.append(Counter())
    try:
        yield
    finally:
        _scopes.pop()
        _scope_counts.pop()


def current_scope() -> str:
    """The scopes that we are in: `encoder/layer_1/`, or nothing."""
    return "".join(f"{label}/" for label in _scopes)


def grad_name(name: str) -> str:
    """The name of a variable's gradient."""
    return name + GRAD
