"""Measures of a model over many batches of tensors: `compute` on the device, `update` on the host, `accumulate`.

accuracy = Accuracy()
for x, label in loader:
    accuracy.update(accuracy.compute(model(x), label))
print(accuracy.accumulate())
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.precision_recall import TruePositives, area_of, count_scores
from fleet_programs import layers
from fleet_programs.program.variable import Variable

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


class Metric(ABC):
    """Something to reset, to update with each batch, and to ask at any time."""

    @abstractmethod
    def reset(self) -> None:
        """Begin anew."""

    @abstractmethod
    def update(self, *args: Any) -> Any:
        """Take in what `compute` gave for one batch."""

    @abstractmethod
    def accumulate(self) -> Any:
        """The measure of all batches since the last reset."""

    @abstractmethod
    def name(self) -> Any:
        """What it is called in reports."""

    def compute(self, *args: Any) -> Any:
        """What `update` needs of predictions and labels, as tensors; here, all of it."""
        return args


class Accuracy(Metric):
    """The share of samples whose label is among the `k` classes with the largest scores, for each k of `topk`."""

    total: list[float]
    count: list[int]

    def __init__(self, topk: int | Sequence[int] = (1,), name: str | None = None) -> None:
        self.topk = (topk,) if isinstance(topk, int) else tuple(topk)
        if not self.topk or min(self.topk) < 1:
            raise UsageError(f"Accuracy: topk must be whole numbers >= 1, got {topk!r}")
        self.maxk = max(self.topk)
        stem = name or "acc"
        self._names = [stem] if self.maxk == 1 else [f"{stem}_top{k}" for k in self.topk]
        self.reset()

    def compute(self, pred: torch.Tensor, label: torch.Tensor, *args: Any) -> Any:  # noqa: ARG002 - what a dataset has more
        """For each sample and each of the largest scores, 1.0 where it is the label's.

        A label is a class, [samples] or [samples, 1], or a row of scores with a 1 for the right one.
        """
        best = torch.topk(pred, min(self.maxk, pred.shape[-1]), -1).indices
        truth = label
        if truth.dim() == pred.dim() and truth.shape[-1] != 1:
            truth = torch.argmax(truth, -1, True)
        elif truth.dim() < pred.dim():
            truth = torch.unsqueeze(truth, -1)
        return as_paddle((best == truth).float())

    def update(self, correct: Any, *args: Any) -> Any:  # noqa: ARG002 - `compute` of a subclass may give more
        """Take in what `compute` gave; gives back the accuracy of this batch, or one for each k."""
        array = _numbers("Accuracy", correct)
        samples = math.prod(array.shape[:-1])
        found = [float(array[..., :k].sum()) for k in self.topk]
        self.total = [before + more for before, more in zip(self.total, found, strict=True)]
        self.count = [before + samples for before in self.count]
        shares = [one / samples if samples else 0.0 for one in found]
        return shares[0] if len(shares) == 1 else shares

    def reset(self) -> None:
        self.total, self.count = [0.0] * len(self.topk), [0] * len(self.topk)

    def accumulate(self) -> Any:
        """The accuracy of all samples, or one for each k; 0 where there were none."""
        shares = [one / all_ if all_ else 0.0 for one, all_ in zip(self.total, self.count, strict=True)]
        return shares[0] if len(shares) == 1 else shares

    def name(self) -> list[str]:
        return self._names


class _OfTwo(TruePositives, Metric):
    """A measure of probabilities against labels of 0 and 1; probabilities of 0.5 and more say 1."""

    def __init__(self, name: str | None = None, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise UsageError(f"{type(self).__name__}: name is all that it takes, got {[*args, *kwargs]}")
        self._name = name or type(self).__name__.lower()
        self.reset()

    def name(self) -> str:
        return self._name

    def update(self, preds: Any, labels: Any) -> None:
        self.count(_numbers(self._name, preds), _numbers(self._name, labels), self._name)

    def accumulate(self) -> float:
        return self.share()


class Precision(_OfTwo, wrong="fp"):
    """Of what was predicted to be 1, the share that is 1."""


class Recall(_OfTwo, wrong="fn"):
    """Of what is 1, the share that was predicted to be."""


class Auc(Metric):
    """Area under the ROC curve. Predictions are [samples, 2], the last column the probability of 1, or [samples, 1]."""

    def __init__(self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc") -> None:
        if curve != "ROC":
            raise NotSupportedError(f"Auc: curve must be 'ROC', got {curve!r}")
        if num_thresholds < 1:
            raise UsageError(f"Auc: num_thresholds must be a whole number >= 1, got {num_thresholds!r}")
        self._thresholds, self._name = num_thresholds, name
        self.reset()

    def reset(self) -> None:
        self._counts = np.zeros((2, self._thresholds + 1), np.int64)

    def update(self, preds: Any, labels: Any) -> None:
        truth = _numbers(self._name, labels).reshape(-1) != 0
        count_scores(self._counts, _numbers(self._name, preds), truth, self._name)

    def accumulate(self) -> float:
        """The probability that a 1 scores higher than a 0, a tie counting half; 0 where either is missing."""
        return area_of(self._counts)

    def name(self) -> str:
        return self._name


def accuracy(
    input: Any,
    label: Any,
    k: int = 1,
    correct: Any = None,
    total: Any = None,
    name: str | None = None,  # noqa: ARG001 - what it makes is called what its script calls it
) -> Any:
    """The share of rows whose label is among the `k` classes with the largest scores.

    `correct` and `total`, if given, get the number of those rows and of all. Of variables it is the layer.
    """
    if isinstance(input, Variable):
        return layers.accuracy(input, label, k, correct, total)
    best = torch.topk(input, min(k, input.shape[-1]), -1).indices
    found = torch.any(best == torch.reshape(label, (-1, 1)), -1)
    for given, number in ((correct, torch.sum(found)), (total, found.numel())):
        if given is not None:
            with torch.no_grad():
                given.fill_(int(number))
    return as_paddle(found.float().mean())


def _numbers(what: str, value: Any) -> npt.NDArray[Any]:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{what}: update takes numbers, a tensor or an array, got {value!r}")
    return array
