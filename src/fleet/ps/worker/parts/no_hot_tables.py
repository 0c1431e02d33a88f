"""What a worker asks of the tables whose hot rows are trained where the model is; here there are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleet.ps.worker.parts.contract import StepPart

if TYPE_CHECKING:
    from fleet.ps.hot.hot_rows import SlotPlacement
    from fleet.ps.worker.asking.lookup import Lookup


class NoHotTables(StepPart):
    """The contract, and a job without such tables. `fleet.ps.hot.hot_tables` is for a job with some."""

    sizes: Mapping[int, int] = {}
    """How many rows of each table are here at least."""

    def __contains__(self, table: int) -> bool:
        """Whether hot rows of a table are trained here. The methods below are for lookups of such tables."""
        return False

    def expect(self, table: int) -> SlotPlacement:
        """The placement of a lookup of a table, which `place` will fill in."""
        raise NotImplementedError(table)

    def place(self, lookup: Lookup, placement: SlotPlacement) -> None:
        """Have the rows of a lookup here for as long as it lives; called in the side thread."""

    def fill(self, lookup: Lookup) -> None:
        """Give a lookup that was placed the rows as they are now."""
