"""Sparse gradients as dense ones, for updates that move every row: in memory that is taken once, not at each step."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch

_OURS = 2  # references to a buffer that nobody else holds: that of its record, and that of the question


@dataclass
class _Kept:
    buffer: torch.Tensor
    rows: torch.Tensor
    version: int


class DenseRows:
    """A dense gradient for each parameter that has sparse ones.

    Of a large table a batch has few rows, and to make the others zero again costs more than the rest of a step. So the
    rows of the last step are cleared, and those of this one written. A gradient that somebody holds on to stays as it
    is: then another is made.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def of(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """The sparse gradient of a parameter as a dense one."""
        gradient = gradient.coalesce()
        if gradient.sparse_dim() != 1:
            return gradient.to_dense()
        rows, values = gradient.indices()[0], gradient.values()
        kept = self._kept.get(id(parameter))
        if kept is None or not _fits(kept.buffer, gradient) or sys.getrefcount(kept.buffer) > _OURS:
            kept = self._kept[id(parameter)] = _Kept(gradient.to_dense(), rows, 0)
        else:
            if kept.buffer._version == kept.version:
                kept.buffer.index_fill_(0, kept.rows, 0)
            else:  # a clip or a later backward has written to other rows, or may have
                kept.buffer.zero_()
            kept.buffer.index_copy_(0, rows, values)
            kept.rows = rows
        kept.version = kept.buffer._version
        return kept.buffer


def _fits(buffer: torch.Tensor, gradient: torch.Tensor) -> bool:
    return (buffer.shape, buffer.dtype, buffer.device) == (gradient.shape, gradient.dtype, gradient.device)
