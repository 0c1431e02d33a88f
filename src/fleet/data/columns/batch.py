"""`fleet.data.Batch`: what readers of files hand out, and what the models of `fleet.models` take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

SlotValues = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""What a slot with several values a sample becomes: int64 [B, length], or (values [n], offsets [B + 1])."""


class Batch(NamedTuple):
    """B samples. What a schema does not have is empty: a dimension of 0, no slots, no weight.

    A bag of any length is `(values, offsets)`: sample `b` has `values[offsets[b]:offsets[b + 1]]`.
    """

    label: torch.Tensor  # float32 [B]; [B, labels] if there are several
    dense: torch.Tensor  # float32 [B, numbers]
    ids: torch.Tensor  # int64 [B, categories]: those that have one value each
    slots: Mapping[str, SlotValues]  # categories with several values, by name
    weight: torch.Tensor | None  # float32 [B]
    numbers: Mapping[
        str, torch.Tensor
    ] = {}  # float64 or int64 [B]: those of these dtypes, by name; nobody writes to it

    @property
    def size(self) -> int:
        """How many samples there are; `len` is that of a tuple."""
        return len(self.label)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same on a device; ids stay in host memory, where keys are looked up."""

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        weight = None if self.weight is None else moved(self.weight)
        numbers = {name: moved(values) for name, values in self.numbers.items()}
        return self._replace(label=moved(self.label), dense=moved(self.dense), weight=weight, numbers=numbers)
