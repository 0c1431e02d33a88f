"""AUC within groups, such as the impressions of each user: how well a model orders what one user saw."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import torch

from fleet.checks import count_of
from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import inputs
from fleet.metrics.inputs import Doubts

Weight = Literal["impressions", "clicks", "equal"]
_MOST_SHIFT = 32


class Lines(NamedTuple):
    """For each line its group and the code of its score, int64 [2, n]; and negatives and positives, [2, n].

    Those are int64, or float64 where samples have weights.
    """

    keys: torch.Tensor
    counts: torch.Tensor


def _joined(parts: list[Lines]) -> Lines:
    device = parts[-1].keys.device
    return Lines(*(torch.cat([one.to(device) for one in each], dim=1) for each in zip(*parts, strict=True)))


class GroupCounts:
    """Lines (group, code of a score, negatives, positives). Codes are ordered as the scores are.

    New lines wait until they are many; then all are sorted, and those of one group and code become one. If there are
    still more than `most`, the last bits of all codes are left out, one after the other.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._shift = 0
        self._lines = Lines(*torch.empty(2, 2, 0, dtype=torch.int64))
        self._waiting: list[Lines] = []
        self._num_waiting = 0

    def add(
        self, groups: torch.Tensor, scores: torch.Tensor, is_positive: torch.Tensor, weights: torch.Tensor | None
    ) -> None:
        """Count samples."""
        bits = (scores + 0.0).contiguous().view(torch.int32)  # -0.0 is 0.0
        code = torch.where(bits < 0, -(bits & 0x7FFFFFFF).long(), bits.long()) >> self._shift
        counts = torch.stack([~is_positive, is_positive])
        self._wait(Lines(torch.stack([groups, code]), counts.long() if weights is None else counts * weights))

    def _wait(self, lines: Lines) -> None:
        self._waiting.append(lines)
        self._num_waiting += lines.keys.shape[1]
        if self._num_waiting > max(self._most // 4, self._lines.keys.shape[1] // 2):
            self._gather()

    def _gather(self) -> None:
        if self._waiting:
            self._lines = _sorted(_joined([self._lines, *self._waiting]))
            self._waiting, self._num_waiting = [], 0
        while self._lines.keys.shape[1] > self._most:
            if self._shift == _MOST_SHIFT:
                raise UsageError(
                    f"GroupedAUC has more groups than max_entries={self._most} allows; make it greater, or the groups "
                    "fewer by a hash of them"
                )
            self._coarsen(1)

    def _coarsen(self, num_bits: int) -> None:
        self._shift += num_bits
        self._lines.keys[1] >>= num_bits
        self._lines = _sorted(self._lines)

    def entries(self) -> Lines:
        """All lines, by group and code."""
        self._gather()
        return self._lines

    def state(self) -> torch.Tensor:
        """A column that says how many bits were left out and whether counts are float64, and the lines."""
        keys, counts = self.entries()
        head = torch.tensor([[self._shift], [counts.is_floating_point()], [0], [0]])
        return torch.cat([head, torch.cat([keys, counts.view(torch.int64)]).cpu()], dim=1)

    def merge(self, state: Any) -> None:
        """Add the lines of another's state."""
        if not isinstance(state, torch.Tensor):
            raise UsageTypeError(f"state must be a tensor, got {type(state).__name__}")
        is_one = state.dtype is torch.int64 and state.dim() == 2 and state.shape[0] == 4 and state.shape[1] > 0
        if not is_one or not 0 <= int(state[0, 0]) <= _MOST_SHIFT or bool((state[2:] < 0).any()):
            raise UsageError(
                f"state must be the int64 [4, lines + 1] that GroupedAUC.state() gives, got {state.dtype} "
                f"{list(state.shape)}"
            )
        shift, keys, counts = int(state[0, 0]), state[:2, 1:].clone(), state[2:, 1:].contiguous()
        if shift > self._shift:
            self._gather()
            self._coarsen(shift - self._shift)
        keys[1] >>= self._shift - shift
        self._wait(Lines(keys, counts.view(torch.float64) if state[1, 0] else counts))


def _sorted(lines: Lines) -> Lines:
    """By group and code, one line for each pair."""
    order = lines.keys[1].argsort(stable=True)
    order = order[lines.keys[0, order].argsort(stable=True)]
    keys, counts = lines.keys[:, order], lines.counts[:, order]
    begins = torch.ones(keys.shape[1], dtype=torch.bool, device=keys.device)
    begins[1:] = (keys[:, 1:] != keys[:, :-1]).any(0)
    keys, place = keys[:, begins], begins.cumsum(0) - 1
    sums = torch.zeros(2, keys.shape[1], dtype=counts.dtype, device=keys.device)
    return Lines(keys, sums.index_add_(1, place, counts))


def weighted_area(lines: Lines, weight: Weight) -> float:
    """The mean of the AUC within each group that has both labels; NaN if none has."""
    groups, (negatives, positives) = lines.keys[0], lines.counts
    if not len(groups):
        return float("nan")
    begins = torch.ones(len(groups), dtype=torch.bool, device=groups.device)
    begins[1:] = groups[1:] != groups[:-1]
    group = begins.cumsum(0) - 1
    num = int(group[-1]) + 1

    def by_group(values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(num, dtype=torch.float64, device=values.device).index_add_(0, group, values.double())

    all_negatives, all_positives = by_group(negatives), by_group(positives)
    before = negatives.cumsum(0) - negatives  # of all groups; less those of groups before this one
    before = before - before[begins][group]
    pairs = by_group(positives * (2 * before + negatives)) / 2
    has_both = (all_negatives > 0) & (all_positives > 0)
    weights = {
        "impressions": all_negatives + all_positives,
        "clicks": all_positives,
        "equal": torch.ones_like(all_positives),
    }[weight]
    area = pairs[has_both] / (all_negatives * all_positives)[has_both]
    return float((area * weights[has_both]).sum() / weights[has_both].sum())


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
        self._max_entries = count_of("max_entries", max_entries, least=16)
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
