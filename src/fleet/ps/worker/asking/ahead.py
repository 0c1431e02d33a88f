"""A lookup of a batch that is known ahead: made at once, or beside the model while it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.ps.worker.asking.aside import used_here

if TYPE_CHECKING:
    from fleet.ps.worker.asking.aside import Made, There
    from fleet.ps.worker.asking.lookup import Lookup, Request


class Ahead:
    """One lookup, there or on its way."""

    def __init__(self, request: Request, made: There[Lookup] | Made[Lookup]) -> None:
        self.request = request
        self._made = made
        self._lookup: Lookup | None = None

    def get(self) -> Lookup:
        """The lookup, when it is there; for whoever trains."""
        if self._lookup is None:
            self._lookup = self._made.get()
            used_here(self._lookup.inverse)
        return self._lookup
