"""AUC within groups, such as the impressions of each user: how well a model orders what one user saw."""

from __future__ import annotations

from typing import Any, get_args

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import inputs
from fleet.metrics.group_counts import GroupCounts, Weight, weighted_area
from fleet.metrics.inputs import Doubts


class GroupedAUC:
    """The mean over groups of the AUC within each, weighted by its impressions ("impressions"), clicks or not at all.

    Groups in which only one label came have no AUC and are left out. Scores are any numbers, logits or probabilities.
    What is kept is a line for each score of each group, so the AUC is exact; beyond `max_entries` lines (of 32 bytes)
    scores that are near each other become one, until they fit.

    >>> metric = GroupedAUC()
    >>> users = torch.tensor([7, 7, 7, 8, 8])
    >>> metric.update(torch.tensor([0.9, 0.8, 0.1, 0.2, 0.7]), torch.tensor([1, 0, 0, 1, 0]), users)
    >>> metric.compute()  # user 7: 1, of 3 impressions; user 8: 0, of 2
    0.6
    """

    needs_groups = True
    """`fleet.evaluate` gives `update` the third value of `step`."""

    def __init__(self, weight: Weight = "impressions", *, max_entries: int = 10_000_000) -> None:
        if weight not in get_args(Weight):
            raise UsageError(f"weight must be {', '.join(map(repr, get_args(Weight)))}, got {weight!r}")
        self._weight: Weight = weight
        self._max_entries = inputs.count("max_entries", max_entries, least=16)
        self._doubts = Doubts()
        self._counts = GroupCounts(self._max_entries)

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same on every worker."""
        return {"weight": self._weight}

    def update(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        groups: torch.Tensor | None = None,
        *,
        weight: torch.Tensor | None = None,
    ) -> None:
        """Count a batch: scores, labels 0 or 1, the group of each sample, an integer, and weights; all of one shape."""
        shaped = scores
        if not isinstance(groups, torch.Tensor):
            raise UsageTypeError(f"groups must be a tensor with the group of each sample, got {type(groups).__name__}")
        scores, labels = inputs.pair(scores, labels, ("scores", "labels"))
        if groups.is_floating_point() or groups.dtype is torch.bool or groups.is_complex():
            raise UsageTypeError(f"groups must be integers, such as ids of users, got {groups.dtype}")
        groups = groups.detach().flatten().to(scores.device)
        if groups.shape != scores.shape:
            raise UsageError(f"groups must be as many as scores, got {len(groups)} and {len(scores)}")
        inputs.numbers(self._doubts, scores, "scores")
        inputs.labels(self._doubts, labels)
        weights = None if weight is None else inputs.weights(self._doubts, weight, shaped, "sample")
        self._counts.add(groups.long(), scores.float(), labels > 0, weights)

    def compute(self) -> float:
        """The weighted mean so far; NaN until a group had both labels."""
        self._doubts.settle()
        return weighted_area(self._counts.entries(), self._weight)

    def state(self) -> torch.Tensor:
        """A copy of the lines, int64 [4, lines + 1]: group, score, negatives, positives. To be merged, not added.

        Once samples had weights, the last two are the bits of float64.
        """
        self._doubts.settle()
        return self._counts.state()

    def merge(self, state: torch.Tensor) -> None:
        """Add another metric's `state()`."""
        self._counts.merge(state)

    def reset(self) -> None:
        """Forget everything."""
        self._doubts = Doubts()
        self._counts = GroupCounts(self._max_entries)
