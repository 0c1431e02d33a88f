"""A lookup of a batch that is known ahead: made at once, or beside the model while it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleet.ps.worker.asking.aside import used_here

if TYPE_CHECKING:
    from fleet.ps.worker.asking.aside import After, Aside, Made
    from fleet.ps.worker.asking.lookup import Lookup, Request


class Ahead:
    """One lookup, there or on its way."""

    def __init__(self, request: Request, lookup: Lookup | None, made: Made[Lookup] | None = None) -> None:
        self.request = request
        self._lookup = lookup
        self._made = made

    def get(self) -> Lookup:
        """The lookup, when it is there; for whoever trains."""
        if self._lookup is None:
            assert self._made is not None
            self._lookup = self._made.get()
            used_here(self._lookup.inverse)
        return self._lookup


def begun(request: Request, make: Callable[[After], Lookup], aside: Aside | None) -> Ahead:
    """Have a lookup made: aside, or here and now where there is nothing beside."""
    return Ahead(request, make(lambda: None)) if aside is None else Ahead(request, None, aside.make(make))
