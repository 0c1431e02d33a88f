"""Samples in memory, for fleet.data.shard: a batch is cut out by position."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.data import Batch


class Held:
    """All samples as one large batch, whose slots are matrices."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return self._batch.size

    def __getitem__(self, places: slice) -> Held:
        return Held(self._rows(places))

    def __getitems__(self, places: Sequence[int]) -> list[Batch]:
        return [self._rows(torch.tensor(places))]

    @staticmethod
    def collate(batches: list[Batch]) -> Batch:
        """Of `__getitems__`: they are one batch already."""
        return batches[0]

    def _rows(self, places: slice | torch.Tensor) -> Batch:
        whole = self._batch
        slots = {name: values[places] for name, values in whole.slots.items() if isinstance(values, torch.Tensor)}
        return Batch(whole.label[places], whole.dense[places], whole.ids[places], slots, None)
