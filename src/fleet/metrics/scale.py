"""Scores sorted into parts that are finer towards 0 and 1, where models of rare events have theirs.

From 1/64 to 63/64 parts are 2^-16 wide. Nearer to an end each halving of the distance to it has 1,024 parts, down to
2^-28; what is nearer still is one part.
"""

from __future__ import annotations

import torch

_PER_HALVING, _WIDTHS = 1024, 65_536
_MANTISSA_LEFT = 13  # bits of a float32 below those that choose one of 1,024 parts
_FIRST = (127 - 28) << 10  # of the parts by halving: 2^-28, as the upper bits of a float32
_HALVINGS = (28 - 6) * _PER_HALVING
_HALF = _HALVINGS + _WIDTHS // 2 - _PER_HALVING + 1
NUM_PARTS = 2 * _HALF
"""108,546."""


def of_probabilities(scores: torch.Tensor) -> torch.Tensor:
    """The part of each score from 0 to 1, int64."""
    is_high = scores >= 0.5
    return _part(torch.where(is_high, 1 - scores, scores), is_high)


def of_logits(logits: torch.Tensor) -> torch.Tensor:
    """The part of the sigmoid of each logit; precise at both ends."""
    return _part(torch.sigmoid(-logits.float().abs()), logits >= 0)


def _part(distance: torch.Tensor, is_high: torch.Tensor) -> torch.Tensor:
    """The part that scores at this distance from 0 belong to, or from 1 where `is_high`."""
    distance = distance.float().contiguous()
    by_halving = ((distance.view(torch.int32) >> _MANTISSA_LEFT) - _FIRST).clamp_(min=0)
    by_width = (distance * _WIDTHS).int() + (_HALVINGS - _PER_HALVING)
    part = torch.where(distance < 1 / 64, by_halving, by_width).long()
    return torch.where(is_high, NUM_PARTS - 1 - part, part)
