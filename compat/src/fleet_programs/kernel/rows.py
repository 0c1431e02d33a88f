"""Some rows of a tensor: the gradient of a sparse lookup, as long as the batch and not as the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass
class Rows:
    """`values[i]` belongs to row `index[i]` of a tensor of `height` rows; an index may occur more than once."""

    index: torch.Tensor
    values: torch.Tensor
    height: int

    @staticmethod
    def added(parts: Sequence[Rows | torch.Tensor]) -> Rows | torch.Tensor:
        """The sum; it is dense if one of them is."""
        dense = [part for part in parts if isinstance(part, torch.Tensor)]
        sparse = [part for part in parts if isinstance(part, Rows)]
        if not dense:
            index = torch.cat([part.index for part in sparse])
            return Rows(index, torch.cat([part.values for part in sparse]), sparse[0].height)
        total = dense[0].clone()
        for tensor in dense[1:]:
            total.add_(tensor)
        for part in sparse:
            total.index_add_(0, part.index, part.values)
        return total

    def merged(self) -> Rows:
        """The same with each index once, in ascending order."""
        index, inverse = torch.unique(self.index, return_inverse=True)
        if len(index) == len(self.index):
            order = torch.argsort(self.index)
            return Rows(self.index[order], self.values[order], self.height)
        values = torch.zeros((len(index), *self.values.shape[1:]), dtype=self.values.dtype, device=self.values.device)
        return Rows(index, values.index_add_(0, inverse, self.values), self.height)

    def to_dense(self) -> torch.Tensor:
        """The whole tensor: rows of one index are added, the others are zeros."""
        shape = (self.height, *self.values.shape[1:])
        dense = torch.zeros(shape, dtype=self.values.dtype, device=self.values.device)
        return dense.index_add_(0, self.index, self.values)

    def scaled(self, factor: float | torch.Tensor) -> Rows:
        """All values multiplied by a factor."""
        return Rows(self.index, self.values * factor, self.height)
