"""What a batch of a dataset is: arrays for dense slots, values and offsets for ragged ones."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt


class Ragged(NamedTuple):
    """The values of a ragged slot in a batch: record `r` has `values[offsets[r]:offsets[r + 1]]`.

    `values` is int64, float32 or float64 [n, 1], `offsets` int64 [batch + 1], from 0 to n.
    """

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]


Batch: TypeAlias = dict[str, npt.NDArray[Any] | Ragged]
"""By the slot's name: `[batch, *shape[1:]]` of a dense slot, or Ragged. It is yours to change."""
