"""Precision and recall over many batches: what they count, and the share that results."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy.typing as npt

from fleet.errors import UsageError


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
