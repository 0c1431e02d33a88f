"""How high the right items of a list are: NDCG, recall, hit rate and reciprocal rank, at k.

Each takes scores [B, items] and either the number of each list's only right item, int64 [B], or how right every item
is, [B, items], 0 for not at all. Items of one score have the mean over all orders of them, so a model that tells
nothing apart gains nothing by it. Lists without a right item do not count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from fleet.checks import count_of, flag_of
from fleet.errors import UsageError
from fleet.metrics import inputs
from fleet.metrics.metric import Sums


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


class _Ranked(Sums):
    def __init__(self, k: int | None) -> None:
        super().__init__()
        self._k = None if k is None else count_of("k", k)

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same on every worker."""
        return {"k": self._k}

    def _of(self, lists: Lists, k: int) -> torch.Tensor:
        raise NotImplementedError

    def update(self, scores: torch.Tensor, targets: torch.Tensor, *, weight: torch.Tensor | None = None) -> None:
        """Count a batch: scores [B, items]; targets [B], places of right items, or [B, items], how right each is.

        `weight`: of each list, [B].
        """
        lists = self._lists(scores, targets)
        counts = (lists.relevance > 0).any(1) if lists.place is None else torch.ones_like(lists.place, dtype=torch.bool)
        found = self._of(lists, min(self._k or lists.scores.shape[1], lists.scores.shape[1]))
        weights = inputs.weights(self._doubts, weight, lists.scores[:, 0], "list") * counts
        self._add(torch.stack([(torch.where(counts, found, 0) * weights).sum(), weights.sum()]))

    def _lists(self, scores: torch.Tensor, targets: torch.Tensor) -> Lists:
        inputs.tensors(scores=scores, targets=targets)
        if scores.dim() != 2 or not scores.is_floating_point() or not scores.shape[1]:
            raise UsageError(f"scores must be numbers [lists, items], got {scores.dtype} {list(scores.shape)}")
        scores, targets = scores.detach(), targets.detach().to(scores.device)
        inputs.numbers(self._doubts, scores, "scores")
        if targets.shape == scores.shape:
            self._doubts.require(targets >= 0, "targets of each item must be at least 0", targets)
            return Lists(scores, targets.double(), None)
        if targets.shape != scores.shape[:1] or targets.is_floating_point() or targets.dtype is torch.bool:
            raise UsageError(
                f"targets must be the places of the right items, integers {list(scores.shape[:1])}, or how right each "
                f"is, {list(scores.shape)}; got {targets.dtype} {list(targets.shape)}"
            )
        most = scores.shape[1] - 1
        self._doubts.require((targets >= 0) & (targets <= most), f"targets must be places from 0 to {most}", targets)
        return Lists(scores, torch.empty(0), targets.long().clamp(0, max(most, 0)))


class NDCG(_Ranked):
    """The normalised discounted cumulative gain of the first k items (None: of all).

    An item at place i, counted from 0, adds its gain / log2(i + 2); the sum is divided by that of the best order. The
    gain is how right the item is, or with `exponential` 2^that - 1.

    >>> metric = NDCG(2)
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([2]))
    >>> round(metric.compute(), 4)
    0.6309
    """

    def __init__(self, k: int | None = 10, *, exponential: bool = False) -> None:
        super().__init__(k)
        self._exponential = flag_of("exponential", exponential)

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same on every worker."""
        return {**super().settings, "exponential": self._exponential}

    def _of(self, lists: Lists, k: int) -> torch.Tensor:
        discounts = 1 / torch.arange(2, k + 2, dtype=torch.float64, device=lists.scores.device).log2()
        if lists.place is not None:
            return mean_over_orders(lists, discounts)
        gains = 2**lists.relevance - 1 if self._exponential else lists.relevance
        best = gains.topk(k, dim=1).values @ discounts
        return mean_over_orders(Lists(lists.scores, gains, None), discounts) / best


class Recall(_Ranked):
    """The share of a list's right items that are among the first k.

    >>> metric = Recall(2)
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    0.5
    """

    def __init__(self, k: int = 10) -> None:
        super().__init__(k)

    def _of(self, lists: Lists, k: int) -> torch.Tensor:
        ones = torch.ones(k, dtype=torch.float64, device=lists.scores.device)
        if lists.place is not None:
            return mean_over_orders(lists, ones)
        is_right = (lists.relevance > 0).double()
        return mean_over_orders(Lists(lists.scores, is_right, None), ones) / is_right.sum(1)


class HitRate(_Ranked):
    """The share of lists with a right item among the first k (HR@k).

    >>> metric = HitRate(2)
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]]), torch.tensor([2, 0]))
    >>> metric.compute()
    0.5
    """

    def __init__(self, k: int = 10) -> None:
        super().__init__(k)

    def _of(self, lists: Lists, k: int) -> torch.Tensor:
        hit = first_hit(lists)
        room = (k - hit.ahead).clamp(min=0)  # of the tied, so many are among the first k
        room = torch.minimum(room, hit.tied)
        others = hit.tied - hit.right
        none = _log_choose(others, torch.minimum(room, others)) - _log_choose(hit.tied, room)
        return 1 - torch.where(room > others, 0, none.exp())


class MRR(_Ranked):
    """The mean of 1 / the rank of a list's first right item; 0 if it is not among the first k (None: of all).

    >>> metric = MRR()
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([2]))
    >>> metric.compute()
    0.5
    """

    def __init__(self, k: int | None = None) -> None:
        super().__init__(k)

    def _of(self, lists: Lists, k: int) -> torch.Tensor:
        hit = first_hit(lists)
        most = int(hit.tied.max()) if len(hit.tied) else 0
        place = torch.arange(
            most, dtype=torch.float64, device=lists.scores.device
        )  # of the first right one, among the tied
        ahead, tied, right = (part.unsqueeze(1) for part in hit)
        behind = tied - 1 - place
        is_possible = (behind >= right - 1) & (ahead + place < k)
        chance = _log_choose(behind.clamp(min=0), (right - 1).clamp(min=0)) - _log_choose(tied, right)
        return torch.where(is_possible, chance.exp() / (ahead + place + 1), 0).sum(1)


def _log_choose(n: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The logarithm of the number of ways to choose k of n."""
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)
