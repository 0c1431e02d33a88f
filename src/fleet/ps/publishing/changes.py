"""What has changed in a server since a mark, cut into batches that are read one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fleet.stream import TableChanges

if TYPE_CHECKING:
    from fleet.ps.held.holdings import Holdings
    from fleet.ps.held.touched import TableKeys

BATCH_BYTES = 4 << 20
"""How large the values of one batch are, about."""
DENSE_BYTES_PER_S = 32 << 20
"""Dense parameters change with every step as a whole: large ones are published less often."""


def cut(holdings: Holdings, found: Sequence[TableKeys]) -> list[dict[int, NDArray[np.int64]]]:
    """The keys of each batch, by table; at least one batch, which may be empty."""
    cuts: list[dict[int, NDArray[np.int64]]] = [{}]
    room = BATCH_BYTES
    for table, (keys, _) in enumerate(found):
        row = 8 + 4 * holdings.job.tables[table].width
        ordered, begin = np.sort(keys), 0
        while begin < len(ordered):
            if room < row:
                cuts.append({})
                room = BATCH_BYTES
            end = min(len(ordered), begin + room // row)
            cuts[-1][table] = ordered[begin:end]
            room -= (end - begin) * row
            begin = end
    return cuts


def read_rows(holdings: Holdings, keys: Mapping[int, NDArray[np.int64]]) -> dict[str, TableChanges]:
    """What has become of the rows of some keys, as they are now; nothing is created."""
    found = {}
    for table, wanted in keys.items():
        found[holdings.job.tables[table].name] = TableChanges(*holdings.tables[table].values_of(wanted))
    return found


class DenseChanges:
    """Which dense groups of a server have changed since they were published."""

    def __init__(self) -> None:
        self._published: list[int] = []
        self._next_at = 0.0

    def forget(self) -> None:
        """Count all as changed."""
        self._published = []

    def take(self, holdings: Holdings, now: float) -> dict[tuple[str, int], NDArray[np.float32]]:
        """The blocks that have changed, unless large ones were published a moment ago."""
        counts = list(holdings.dense_changes)  # before the values are read: what changes then is published again
        if counts == self._published or now < self._next_at:
            return {}
        blocks = dense_blocks(holdings)
        self._published = counts
        self._next_at = now + sum(values.nbytes for values in blocks.values()) / DENSE_BYTES_PER_S
        return blocks


def dense_blocks(holdings: Holdings) -> dict[tuple[str, int], NDArray[np.float32]]:
    """The values of all dense blocks of a server, by parameter and first element."""
    found, dense = {}, holdings.job.dense
    for group, values in enumerate(holdings.read_dense()):
        begin = 0
        for block in dense.blocks:
            if (block.server, block.group) == (holdings.server, group):
                end = begin + block.end - block.begin
                found[block.parameter, block.begin] = np.array(values[begin:end], np.float32)
                begin = end
    return found
