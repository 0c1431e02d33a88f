"""Samples that every worker can reach by position, divided by it: step after step through one order of the epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from fleet.data.shards.base import Shard, Uneven
from fleet.data.shards.order import block, permutation
from fleet.data.shards.workers import Workers
from fleet.data.source import Source
from fleet.errors import UsageError


class SampleShard(Shard):
    """A step takes the next `batch_size` x workers samples of the epoch's order, and each worker its block of them.

    The position is the number of samples that all workers together have taken from the order, which knows nothing of
    workers: another number of them, or another batch size, goes on at the same sample.
    """

    _kind, _unit = "samples", "samples_seen"
    _same_again = "go on with the same data, shuffle and seed, or begin again without this state"

    def __init__(
        self, source: Source, workers: Workers, *, batch_size: int, uneven: Uneven, shuffle: bool, seed: int
    ) -> None:
        super().__init__(workers, uneven)
        self._source = source
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self._num_samples = len(source)
        self._step_size = batch_size * workers.num
        self._order: tuple[int, torch.Tensor] | None = None
        workers.compare(
            {
                "len(data)": self._num_samples,
                "batch_size": batch_size,
                "uneven": uneven,
                "shuffle": shuffle,
                "seed": seed,
            },
            "give all of them the whole data with the same settings, or each an iterable of its own batches",
        )
        if self._num_samples == 0:
            raise UsageError("data has no samples")
        if uneven == "drop" and self._num_samples < self._step_size:
            raise UsageError(
                f"uneven='drop' would drop all {self._num_samples} samples, a step takes {batch_size} on each of "
                f"{workers.num} workers; make batch_size smaller, or use 'pad' or 'join'"
            )

    def __len__(self) -> int:
        steps, rest = divmod(self._num_samples, self._step_size)
        if self._uneven == "join":
            return steps + (block(rest, self._workers.index, self._workers.num)[1] > 0)
        return steps + (self._uneven == "pad" and rest > 0)

    @property
    def num_done(self) -> int:
        self._ask()
        return min(-(-self._count // self._step_size), len(self))

    def _batches(self) -> Iterator[Any]:
        while (places := self._places(self._count)) is not None:
            batch = self._source.batch(self._in_order(places)) if len(places) else None
            self._count = self._after(self._count)
            if batch is not None:
                yield batch

    def _after(self, count: int) -> int:
        """The position behind the step that begins at `count`."""
        return min(count + self._step_size, self._num_samples)

    def _places(self, count: int) -> torch.Tensor | None:
        """This worker's places, in the order of the epoch, of the step at `count`; None behind the last step."""
        left = self._num_samples - count
        if left <= 0 or (left < self._step_size and self._uneven == "drop"):
            return None
        is_whole = left >= self._step_size or self._uneven == "pad"
        first, size = block(self._step_size if is_whole else left, self._workers.index, self._workers.num)
        return torch.arange(count + first, count + first + size) % self._num_samples

    def _in_order(self, places: torch.Tensor) -> torch.Tensor:
        if not self._shuffle:
            return places
        if self._order is None or self._order[0] != self._epoch:
            self._order = (self._epoch, permutation(self._num_samples, self._seed, self._epoch))
        return self._order[1][places].long()

    def _needs_join(self) -> bool:
        rest = (self._num_samples - self._count) % self._step_size
        return self._uneven == "join" and 0 < rest < self._workers.num

    def _some_have_none(self) -> bool:
        return self._num_samples - self._count < self._workers.num

    def _settings(self) -> dict[str, Any]:
        return {"num_samples": self._num_samples, "shuffle": self._shuffle, "seed": self._seed}
