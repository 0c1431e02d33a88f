"""Functions of rows that belong to numbers: segments of rows in order, and messages along the edges of a graph."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.native_ops import reduced, segment_pool
from fleet_paddle.imperative.tensor import Tensor, as_paddle


def segment_sum(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:  # noqa: ARG001
    """The sum of the rows of each number; 0 where a number has none."""
    return segment_pool(data, segment_ids, "pooltype", "SUM")[0]


def segment_mean(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:  # noqa: ARG001
    """Their mean."""
    return segment_pool(data, segment_ids, "pooltype", "MEAN")[0]


def segment_max(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:  # noqa: ARG001
    """The largest of their elements."""
    return segment_pool(data, segment_ids, "pooltype", "MAX")[0]


def segment_min(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:  # noqa: ARG001
    """The smallest of their elements."""
    return segment_pool(data, segment_ids, "pooltype", "MIN")[0]


def graph_send_recv(
    x: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    pool_type: str = "sum",
    name: str | None = None,  # noqa: ARG001
) -> Tensor:
    """The rows of `x` at the edges' beginnings made one at each of their ends; 0 where no edge ends."""
    if pool_type not in ("sum", "mean", "max", "min"):
        raise UsageError(f"graph_send_recv: pool_type must be sum, mean, max or min, got {pool_type!r}")
    messages = torch.index_select(x, 0, src_index.long())
    return reduced(messages, dst_index.long(), x.shape[0], pool_type.upper())


def softmax_mask_fuse(x: Tensor, mask: Tensor, name: str | None = None) -> Tensor:  # noqa: ARG001
    """Softmax of `x + mask` along the last dimension."""
    return as_paddle(torch.softmax(x + mask, -1))


def softmax_mask_fuse_upper_triangle(x: Tensor) -> Any:
    """Softmax of each row's elements up to the diagonal; those behind it become 0."""
    seen = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).tril()
    return as_paddle(torch.softmax(x.masked_fill(~seen, float("-inf")), -1))
