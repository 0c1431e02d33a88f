"""Click data made on the spot: 26 slots of ids, 13 numbers and a label, the same bytes on every machine.

Which ids occur follows a Zipf law, as in real logs: a few come all the time, most hardly ever. A slot has a million
ids, and no two slots share one, so a single table can hold them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

SLOTS, DENSE, VOCAB = 26, 13, 1_000_000
TELLING = slice(1, 5)
"""The slots whose ids move the label when `signal` is given."""


class Batch(NamedTuple):
    """B impressions."""

    ids: torch.Tensor  # int64 [B, 26]
    dense: torch.Tensor  # float32 [B, 13], each in [0, 1)
    label: torch.Tensor  # int64 [B], 1: clicked


def batches(
    count: int, batch_size: int = 1000, *, worker: int = 0, seed: int = 2024, zipf: float = 1.1, signal: float = 0.0
) -> Iterator[Batch]:
    """Yield `count` batches; every worker has a stream of its own.

    A click depends on the first number and, weakly, on the id in slot 0: a perfect model reaches an AUC of about 0.77.
    `signal` adds hidden weights for the ids of four more slots, of that size at most; 3 makes learning easy to watch.
    """
    rng = np.random.default_rng([seed, worker])
    cdf = _zipf_cdf(zipf)
    first_id = np.arange(SLOTS)[:, None] * VOCAB
    for _ in range(count):
        rank = np.searchsorted(cdf, rng.random((SLOTS, batch_size)))
        ids = rank * 7919 % VOCAB + first_id  # neighbours in rank are no neighbours in key
        dense = rng.random((batch_size, DENSE), dtype=np.float32)
        logit = dense[:, 0] + (ids[0] % 7 - 3) * 0.5
        if signal:
            logit += signal * _hidden_weight(ids[TELLING]).sum(axis=0)
        label = rng.random(batch_size) < 1 / (1 + np.exp(-logit))
        yield Batch(
            torch.from_numpy(np.ascontiguousarray(ids.T)), torch.from_numpy(dense), torch.from_numpy(label).long()
        )


@cache
def _zipf_cdf(exponent: float) -> npt.NDArray[np.float64]:
    """How likely a rank is this one or a lower one; the most frequent id has rank 0."""
    cdf: npt.NDArray[np.float64] = np.cumsum(1.0 / np.arange(1, VOCAB + 1) ** exponent)
    cdf /= cdf[-1]
    return cdf


def _hidden_weight(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.floating[Any]]:
    """A number in [-1, 1) that belongs to an id and cannot be guessed from it."""
    scrambled = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (scrambled >> np.uint64(40)) / 2.0**23 - 1
