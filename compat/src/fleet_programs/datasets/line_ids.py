"""Records that were cut into several lines of one id, put together again."""

from __future__ import annotations

import numpy as np

from fleet.data.columns.records import Column, Records


def merge_by_id(records: Records, merge_size: int) -> tuple[Records, int]:
    """One record for each id that has `merge_size` of them, by ascending hash of the id; and how many were left out.

    A ragged slot gets the values of all of them, in their order; a dense slot those of the first.
    """
    assert records.ids is not None
    order = np.argsort(records.ids, kind="stable")
    ids = records.ids[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(len(ids), 1), dtype=bool), ids[1:] != ids[:-1]]))
    sizes = np.diff(starts, append=len(ids))
    kept = records.take(order[np.repeat(sizes == merge_size, sizes)])
    assert kept.ids is not None
    columns = [
        Column(column.values[::merge_size], None)
        if column.offsets is None
        else Column(column.values, column.offsets[::merge_size].copy())
        for column in kept.columns
    ]
    merged = Records(records.slots, columns, kept.num // merge_size, kept.ids[::merge_size].copy())
    return merged, records.num - kept.num
