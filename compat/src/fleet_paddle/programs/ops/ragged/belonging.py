"""Arithmetic on offsets: which row of a batch each value of a ragged variable belongs to. No operators."""

from __future__ import annotations

import torch


def owners(offsets: torch.Tensor, num_values: int) -> torch.Tensor:
    """The row of each value. To be told how many there are saves a GPU from being asked."""
    return torch.repeat_interleave(offsets.diff(), output_size=num_values)


def places(offsets: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
    """Where in its row each value is."""
    return torch.arange(len(owner), device=owner.device) - offsets.index_select(0, owner)


def offsets_of(sizes: torch.Tensor) -> torch.Tensor:
    """The offsets of rows of these lengths."""
    offsets = sizes.new_zeros(len(sizes) + 1)
    torch.cumsum(sizes, 0, out=offsets[1:])
    return offsets
