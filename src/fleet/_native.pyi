"""The C++ core (csrc/). Works on CPU buffers with the GIL released; returns numpy arrays that own their memory.

Every array argument is a numpy array or a CPU torch tensor, C-contiguous, and is neither copied nor converted:
another dtype is a TypeError, another layout, shape or device a ValueError. It must not change while a call runs: a
write from another thread in the meantime gives a wrong result or a crash.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_Keys = npt.NDArray[np.int64] | torch.Tensor

def unique(keys: _Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (distinct, inverse): the distinct keys in ascending order, and distinct[inverse] == keys."""

def split(keys: _Keys, num_servers: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (grouped, order, offsets): keys grouped by server, stable within a server.

    Server s holds grouped[offsets[s]:offsets[s + 1]], and grouped == keys[order].
    """

def server_of(keys: _Keys, num_servers: int) -> npt.NDArray[np.int64]:
    """Return the server, in 0..num_servers - 1, that holds each key; never changes (csrc/keys/hash.h)."""

def merge(pieces: Sequence[npt.NDArray[Any] | torch.Tensor], order: _Keys) -> npt.NDArray[Any]:
    """Return rows with rows[order[i]] = row i of all pieces, taken one after the other.

    Pieces have shape [n] or [n, width] and share dtype and width. `order` names every row of the result once.
    """
