"""Arithmetic on offsets: which row of a batch each value of a ragged variable belongs to. No operators."""

from __future__ import annotations

import torch

from fleet.static.registry import Infer


def lengths(offsets: torch.Tensor) -> torch.Tensor:
    """How many values each row has."""
    return offsets.diff()


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


def bag_sum(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The sum of each row, zeros for an empty one."""
    flat = values.reshape(len(values), -1) if values.ndim != 2 else values
    if not len(flat):
        return values.new_zeros((len(offsets) - 1, *values.shape[1:]))
    every = torch.arange(len(flat), device=flat.device)
    found = torch.embedding_bag(flat, every, offsets, False, 0, False, None, True)[0]
    return found.view(-1, *values.shape[1:])


def require_offsets(infer: Infer, slot: str = "Offsets") -> None:
    """Fail unless a slot holds offsets."""
    var = infer.var(slot)
    if var.dtype != "int64" or var.ndim != 1:
        raise infer.fail(f"{slot} {var.name!r} must be int64 [batch + 1], got {var.dtype} {list(var.shape)}")
