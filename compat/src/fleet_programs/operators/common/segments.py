"""Arithmetic on offsets, which say where the rows of a ragged variable begin. No operators."""

from __future__ import annotations

import torch

from fleet_programs.definition.registry import Infer


def lengths(offsets: torch.Tensor) -> torch.Tensor:
    """How many values each row has."""
    return offsets.diff()


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
