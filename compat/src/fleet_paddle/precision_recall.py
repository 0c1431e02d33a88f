"""Precision, recall and AUC over many batches: what they count, and what results."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from fleet.errors import UsageError
from fleet.metrics import auc


class TruePositives:
    """`tp`, what is 1 and was found, over that and the attribute `wrong`: "fp" for precision, "fn" for recall."""

    tp: int
    wrong: ClassVar[str]

    def __init_subclass__(cls, wrong: str | None = None) -> None:
        super().__init_subclass__()
        if wrong is not None:
            cls.wrong = wrong

    def reset(self) -> None:
        """Begin anew."""
        vars(self).update({"tp": 0, self.wrong: 0})

    def count(self, probabilities: npt.NDArray[Any], labels: npt.NDArray[Any], who: str) -> None:
        """Take in a batch; a probability of 0.5 and more says 1. UsageError, naming `who`, where they do not fit."""
        found, truth = probabilities.reshape(-1) >= 0.5, labels.reshape(-1) != 0
        if len(found) != len(truth):
            raise UsageError(f"{who}: preds and labels must be as many, got {len(found)} and {len(truth)}")
        self.tp += int((found & truth).sum())
        vars(self)[self.wrong] += int((found & ~truth if self.wrong == "fp" else ~found & truth).sum())

    def share(self) -> float:
        """0 where there is nothing to take a share of."""
        whole = self.tp + vars(self)[self.wrong]
        return self.tp / whole if whole else 0.0


def count_scores(
    counts: npt.NDArray[np.int64], scores: npt.NDArray[Any], truth: npt.NDArray[np.bool_], who: str
) -> None:
    """Add scores from 0 to 1 to `counts`, [2, parts]: row 0 for what is not true, row 1 for what is.

    Of scores [rows, columns] the last column is taken. UsageError that begins with `who` where they do not fit.
    """
    scores = (scores[:, -1] if scores.ndim > 1 else scores).reshape(-1)
    if len(scores) != len(truth):
        raise UsageError(f"{who}: preds and labels must be as many, got {len(scores)} and {len(truth)}")
    if not ((scores >= 0) & (scores <= 1)).all():
        raise UsageError(f"{who}: preds must be from 0 to 1, got {scores.min():g} to {scores.max():g}")
    num_parts = counts.shape[1]
    part = (scores * (num_parts - 1)).astype(np.int64)
    for side, chosen in enumerate((~truth, truth)):
        counts[side] += np.bincount(part[chosen], minlength=num_parts)


def area_of(counts: npt.NDArray[np.int64]) -> float:
    """The area under the curve of such counts; 0 where there is nothing true, or nothing else."""
    found = auc(*torch.from_numpy(counts))
    return 0.0 if math.isnan(found) else found
