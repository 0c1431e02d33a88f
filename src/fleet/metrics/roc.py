"""AUC of a stream of scores, from two histograms: constant memory, and histograms of workers can be added.

>>> import torch
>>> metric = AUC()
>>> metric.update(torch.tensor([0.9, 0.8, 0.3, 0.6]), torch.tensor([1, 0, 0, 1]))
>>> metric.compute()
0.75

Over all workers of a job:

    total = fleet.metrics.gather({"auc": metric}, fleet.util)["auc"]
"""

from __future__ import annotations

import torch

from fleet.checks import flag_of
from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import inputs

# From 1/64 to 63/64 parts are 2^-16 wide. Nearer to an end each halving of the distance to it has 1,024 parts, down to
# 2^-28; what is nearer still is one part.
_PER_HALVING, _WIDTHS = 1024, 65_536
_MANTISSA_LEFT = 13  # bits of a float32 below those that choose one of 1,024 parts
_FIRST = (127 - 28) << 10  # of the parts by halving: 2^-28, as the upper bits of a float32
_HALVINGS = (28 - 6) * _PER_HALVING
_HALF = _HALVINGS + _WIDTHS // 2 - _PER_HALVING + 1
NUM_PARTS = 2 * _HALF
"""108,546."""


def auc(negatives: torch.Tensor, positives: torch.Tensor) -> float:
    """The probability that a positive scores higher than a negative, a tie counting half, from counts by rising score.

    NaN when either class is absent: there is no pair to compare.

    >>> auc(torch.tensor([3, 1, 0]), torch.tensor([0, 1, 3]))
    0.96875
    """
    if negatives.shape != positives.shape or negatives.dim() != 1:
        raise UsageError(
            f"negatives and positives must be counts of the same thresholds, got shapes {list(negatives.shape)} "
            f"and {list(positives.shape)}"
        )
    return float(area(negatives.double(), positives.double()))


def area(negatives: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """`auc` of counts in double precision, as a tensor where they are: nothing waits for the device."""
    below = negatives.cumsum(0) - negatives / 2
    return (positives * below).sum() / (negatives.sum() * positives.sum())


class AUC:
    """Area under the ROC curve of everything given to `update` since the start or the last `reset`.

    Scores are sorted into parts, and those in one part count as tied: 108,546 parts that are finer towards 0 and 1, or
    `num_thresholds` equal parts of [0, 1]. Without `num_thresholds` the result is within 1e-4 of the exact one also
    where scores lie close together, as an untrained model's do, or are all near 0, as those of rare events; only the
    two together, with a few dozen positives, need more. With `from_logits` scores are logits, and the sigmoid is taken
    here.
    """

    def __init__(self, num_thresholds: int | None = None, *, from_logits: bool = False) -> None:
        if isinstance(num_thresholds, bool) or not isinstance(num_thresholds, int | None):
            raise UsageTypeError(f"num_thresholds must be an int, got {num_thresholds!r}")
        if num_thresholds is not None and num_thresholds < 2:
            raise UsageError(f"num_thresholds must be at least 2, got {num_thresholds}; without it there are enough")
        self._from_logits = flag_of("from_logits", from_logits)
        self._is_even = num_thresholds is not None
        self._counts = torch.zeros(2, num_thresholds or NUM_PARTS, dtype=torch.int64)
        self._doubts = inputs.Doubts()

    @classmethod
    def from_state(cls, state: torch.Tensor) -> AUC:
        """A metric that goes on from a `state()`, or from a sum of several."""
        _check_state(state)
        metric = cls(None if state.shape[1] == NUM_PARTS else state.shape[1])
        metric.merge(state)
        return metric

    @property
    def num_thresholds(self) -> int:
        """The number of parts that scores are sorted into."""
        return self._counts.shape[1]

    def update(self, scores: torch.Tensor, labels: torch.Tensor, *, weight: torch.Tensor | None = None) -> None:
        """Count a batch: scores in [0, 1], labels 0 or 1 of any type, and weights, all of one shape."""
        shaped = scores
        scores, labels = inputs.pair(
            scores, labels, ("scores", "labels"), "; of a softmax over two classes give column 1"
        )
        if self._from_logits:
            inputs.numbers(self._doubts, scores, "logits")
        else:
            inputs.probabilities(self._doubts, scores, "AUC")
        inputs.labels(self._doubts, labels)
        cell = self._part(scores) + (labels > 0) * self.num_thresholds
        weights = None if weight is None else inputs.weights(self._doubts, weight, shaped, "sample")
        self._counts = self._counts.to(cell.device, self._counts.dtype if weights is None else torch.float64)
        if cell.device.type == "cpu" and len(cell) > self.num_thresholds // 4:
            self._counts += torch.bincount(cell, weights, minlength=2 * self.num_thresholds).view_as(self._counts)
        else:
            each = torch.ones_like(cell) if weights is None else weights
            self._counts.view(-1).index_add_(0, cell, each.to(self._counts.dtype))

    def _part(self, scores: torch.Tensor) -> torch.Tensor:
        if self._is_even:
            scores = torch.sigmoid(scores) if self._from_logits else scores
            return (scores.double() * self.num_thresholds).long().clamp_(0, self.num_thresholds - 1)
        found = part_of_logits(scores) if self._from_logits else part_of_probabilities(scores)
        return found.clamp_(0, self.num_thresholds - 1)

    def compute(self) -> float:
        """The AUC so far; NaN until both labels have been seen."""
        return auc(*self.state())

    def state(self) -> torch.Tensor:
        """A copy of the counts [2, num_thresholds]: negatives, then positives. States may be added.

        They are int64, and float64 once samples had weights.
        """
        self._doubts.settle()
        return self._counts.cpu().clone()

    def merge(self, state: torch.Tensor) -> None:
        """Add another metric's `state()`."""
        _check_state(state)
        if state.shape[1] != self.num_thresholds:
            raise UsageError(
                f"a state of {state.shape[1]} thresholds cannot be added to one of {self.num_thresholds}; "
                "use the same num_thresholds on every worker"
            )
        self._counts = self._counts + state.to(self._counts.device)

    def reset(self) -> None:
        """Forget everything."""
        self._counts = torch.zeros_like(self._counts, dtype=torch.int64)
        self._doubts = inputs.Doubts()


def _check_state(state: torch.Tensor) -> None:
    if not isinstance(state, torch.Tensor):
        raise UsageTypeError(f"state must be a tensor, got {type(state).__name__}")
    is_one = state.dtype in (torch.int64, torch.float64) and state.dim() == 2 and state.shape[0] == 2
    if not is_one or not bool((state >= 0).all()):
        raise UsageError(
            f"state must be the int64 or float64 [2, num_thresholds] counts that state() gives, got {state.dtype} "
            f"{list(state.shape)}"
        )


def part_of_probabilities(scores: torch.Tensor) -> torch.Tensor:
    """The part of each score from 0 to 1, int64."""
    is_high = scores >= 0.5
    return _part_at(torch.where(is_high, 1 - scores, scores), is_high)


def part_of_logits(logits: torch.Tensor) -> torch.Tensor:
    """The part of the sigmoid of each logit; precise at both ends."""
    return _part_at(torch.sigmoid(-logits.float().abs()), logits >= 0)


def _part_at(distance: torch.Tensor, is_high: torch.Tensor) -> torch.Tensor:
    """The part that scores at this distance from 0 belong to, or from 1 where `is_high`."""
    distance = distance.float().contiguous()
    by_halving = ((distance.view(torch.int32) >> _MANTISSA_LEFT) - _FIRST).clamp_(min=0)
    by_width = (distance * _WIDTHS).int() + (_HALVINGS - _PER_HALVING)
    part = torch.where(distance < 1 / 64, by_halving, by_width).long()
    return torch.where(is_high, NUM_PARTS - 1 - part, part)
