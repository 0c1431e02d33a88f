"""Matrices of bags, filled up to one length, and of columns, side by side."""

from collections.abc import Sequence
from typing import Any

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


ROWS_AT_A_TIME = 2048
"""So many rows stay in a core's cache while one column after the other is written into them."""


def side_by_side(columns: Sequence[npt.NDArray[Any]], num: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """[num, columns], row by row in memory."""
    matrix = np.empty((num, len(columns)), dtype=dtype)
    for first in range(0, num, ROWS_AT_A_TIME):
        part = matrix[first : first + ROWS_AT_A_TIME]
        for place, column in enumerate(columns):
            part[:, place] = column[first : first + ROWS_AT_A_TIME]
    return matrix
