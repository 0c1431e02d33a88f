"""`distributed_batch_reader`: a reader of batches of which each worker takes its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fleet_paddle.imperative import get_rank, get_world_size


def distributed_batch_reader(batch_reader: Callable[[], Iterable[Any]]) -> Callable[[], Iterator[Any]]:
    """Batch r, r + n, ... of `batch_reader()` for worker r of n; what is left for fewer workers is left out."""

    def batches_of_this_worker() -> Iterator[Any]:
        rank, count = get_rank(), get_world_size()
        mine = None
        for place, batch in enumerate(batch_reader()):
            if place % count == rank:
                mine = batch
            if place % count == count - 1:
                yield mine

    return batches_of_this_worker
