"""Sums of bags whose rows have a weight each, differentiable in rows and weights: float32 in CPU memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from fleet import _native
from fleet.nn.core_memory import MEMORY, matrix, plain


def weighted_bags(
    rows: torch.Tensor,
    inverse: torch.Tensor,
    offsets: torch.Tensor,
    weights: torch.Tensor,
    include_last_offset: bool,
) -> torch.Tensor:
    """Sum the rows [U, D] that a 1-D inverse names, each times its weight, over the bags that `offsets` begin."""
    pooled: torch.Tensor = _WeightedBags.apply(  # type: ignore[no-untyped-call]
        rows, inverse, offsets, weights, include_last_offset
    )
    return pooled


class _WeightedBags(torch.autograd.Function):
    """rows [U, D], inverse [n], offsets [B] or [B + 1], weights [n] -> [B, D]."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        inverse: torch.Tensor,
        offsets: torch.Tensor,
        weights: torch.Tensor,
        include_last_offset: bool,
    ) -> torch.Tensor:
        rows, inverse, offsets, weights = plain(rows), plain(inverse), plain(offsets), plain(weights)
        out = torch.empty(max(offsets.numel() - include_last_offset, 0), rows.shape[1], **MEMORY)
        _native.pool_weighted(
            rows.numpy(), inverse.numpy(), offsets.numpy(), weights.numpy(), out.numpy(), include_last_offset
        )
        ctx.save_for_backward(rows, inverse, offsets, weights)
        ctx.include_last_offset = include_last_offset
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, inverse, offsets, weights = ctx.saved_tensors
        grads = matrix(grad_out, *grad_out.shape)
        places = inverse.numpy(), offsets.numpy()
        grad_rows = grad_weights = None
        if ctx.needs_input_grad[0]:
            grad_rows = torch.zeros(rows.shape, **MEMORY)
            _native.unpool_weighted(grads, *places, weights.numpy(), grad_rows.numpy(), ctx.include_last_offset)
        if ctx.needs_input_grad[3]:
            grad_weights = torch.zeros(weights.shape, **MEMORY)
            _native.grade_weights(grads, *places, rows.numpy(), grad_weights.numpy(), ctx.include_last_offset)
        return grad_rows, None, None, grad_weights, None
