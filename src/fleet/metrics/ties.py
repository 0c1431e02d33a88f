"""Lists of scored items, some of which have the same score."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Lists(NamedTuple):
    """Lists of as many items each, and which of them are right."""

    scores: torch.Tensor  # [B, items]
    relevance: torch.Tensor  # float64 [B, items], 0: not right; empty where there is `place`
    place: torch.Tensor | None  # int64 [B]: the only right item of each


class Hit(NamedTuple):
    """The best score that a right item has, float64 [B] each."""

    ahead: torch.Tensor  # items with a higher score
    tied: torch.Tensor  # items with that score
    right: torch.Tensor  # right ones among them


def first_hit(lists: Lists) -> Hit:
    """Where the first right item of each list is."""
    scores = lists.scores
    if lists.place is not None:
        best = scores.gather(1, lists.place.unsqueeze(1))
        is_tied = scores == best
        right = torch.ones(len(scores), dtype=torch.float64, device=scores.device)
    else:
        is_right = lists.relevance > 0
        best = torch.where(is_right, scores, -torch.inf).amax(1, keepdim=True)
        is_tied = scores == best
        right = (is_tied & is_right).sum(1).double()
    return Hit((scores > best).sum(1).double(), is_tied.sum(1).double(), right)


def mean_over_orders(lists: Lists, weights: torch.Tensor) -> torch.Tensor:
    """The sum, over the items of each list, of its relevance times the weight of its place, 0 behind the last weight.

    Tied items have each of their places equally often. The only right item of lists with `place` has relevance 1.
    """
    sums = torch.cat([weights.new_zeros(1), weights.cumsum(0)])  # of the first 0, 1, 2, ... weights
    k = len(weights)

    def mean(first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """The mean of the weights of places first .. last - 1."""
        return (sums[last.clamp(max=k)] - sums[first.clamp(max=k)]) / (last - first)

    if lists.place is not None:
        hit = first_hit(lists)
        return mean(hit.ahead.long(), (hit.ahead + hit.tied).long().clamp(min=1))
    scores, order = lists.scores.sort(dim=1, descending=True)
    place = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    begins = torch.ones_like(scores, dtype=torch.bool)
    begins[:, 1:] = scores[:, 1:] != scores[:, :-1]
    ends = torch.ones_like(begins)
    ends[:, :-1] = begins[:, 1:]
    first = torch.where(begins, place, 0).cummax(1).values
    last = torch.where(ends, place + 1, scores.shape[1]).flip(1).cummin(1).values.flip(1)
    return (lists.relevance.gather(1, order) * mean(first, last)).sum(1)
