"""Bags of any length as a matrix of one length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


def matrix_of(values: Ids, offsets: Ids, length: int, padding: int) -> Ids:
    """The last `length` values of each bag, filled up behind them."""
    counts = np.minimum(np.diff(offsets), length)
    matrix = np.full((len(counts), length), padding, dtype=np.int64)
    steps = np.arange(length)
    is_filled = steps < counts[:, None]
    matrix[is_filled] = values[((offsets[1:] - counts)[:, None] + steps)[is_filled]]
    return matrix
