"""Measures of a model over many batches, kept in Python: give them what `exe.run` fetched.

accuracy = Accuracy()
for feed in batches:
    value, = exe.run(feed=feed, fetch_list=[batch_accuracy])
    accuracy.update(value, weight=len(feed["label"]))
print(accuracy.eval())
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_paddle.precision_recall import TruePositives, area_of, count_scores


class MetricBase(ABC):
    """Something to update with each batch, evaluate at any time, and reset."""

    def __init__(self, name: str | None = None) -> None:
        self._name = str(name) if name is not None else type(self).__name__

    def __str__(self) -> str:
        return self._name

    def get_config(self) -> dict[str, Any]:
        """Its name and what it has counted."""
        return {"name": self._name, "states": {key: value for key, value in vars(self).items() if key[0] != "_"}}

    @abstractmethod
    def reset(self) -> None:
        """Begin anew."""

    @abstractmethod
    def update(self, preds: Any, labels: Any) -> None:
        """Take in one batch."""

    @abstractmethod
    def eval(self) -> Any:
        """The measure of all batches since the last reset."""


class CompositeMetric(MetricBase):
    """Several metrics of the same predictions and labels."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Take one more in."""
        if not isinstance(metric, MetricBase):
            raise UsageTypeError(f"add_metric: a metric must be a MetricBase, got {type(metric).__name__}")
        self._metrics.append(metric)

    def reset(self) -> None:
        for metric in self._metrics:
            metric.reset()

    def update(self, preds: Any, labels: Any) -> None:
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """What each of them says, in the order they were added."""
        return [metric.eval() for metric in self._metrics]


class _OfTwo(TruePositives, MetricBase):
    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        self.count(_numbers(self, "preds", preds), _numbers(self, "labels", labels), str(self))

    def eval(self) -> float:
        return self.share()


class Precision(_OfTwo, wrong="fp"):
    """Of what was predicted to be 1, the share that is 1. Predictions are probabilities; 0.5 and more round to 1."""


class Recall(_OfTwo, wrong="fn"):
    """Of what is 1, the share that was predicted to be. Predictions are probabilities; 0.5 and more round to 1."""


class Accuracy(MetricBase):
    """The mean of batches' accuracies, which `layers.accuracy` computes, weighted by their sizes."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.reset()

    def reset(self) -> None:
        self.value = self.weight = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Take in the accuracy of one batch, and its size."""
        count = float(_numbers(self, "weight", weight).reshape(-1)[0])
        if count < 0:
            raise UsageError(f"{self}: weight must be >= 0, got {count:g}; it is the size of the batch")
        self.value += float(_numbers(self, "value", value).reshape(-1)[0]) * count
        self.weight += count

    def eval(self) -> float:
        if not self.weight:
            raise NotReadyError(f"{self} has seen no batch; call update() first")
        return self.value / self.weight


class Auc(MetricBase):
    """Area under the ROC curve. Predictions are [rows, 2], the probability of 1 in the last column, or [rows, 1]."""

    def __init__(self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name)
        if curve != "ROC":
            raise UsageError(f"Auc: curve must be 'ROC', got {curve!r}")
        if type(num_thresholds) is not int or num_thresholds < 1:
            raise UsageError(f"Auc: num_thresholds must be a whole number >= 1, got {num_thresholds!r}")
        self._thresholds = num_thresholds
        self.reset()

    def reset(self) -> None:
        self.counts = np.zeros((2, self._thresholds + 1), np.int64)

    def update(self, preds: Any, labels: Any) -> None:
        truth = _numbers(self, "labels", labels).reshape(-1) != 0
        count_scores(self.counts, _numbers(self, "preds", preds), truth, str(self))

    def eval(self) -> float:
        """The probability that a 1 scores higher than a 0, a tie counting half; 0 where either is missing."""
        return area_of(self.counts)


def _numbers(metric: MetricBase, what: str, value: Any) -> npt.NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or not array.size:
        raise UsageTypeError(f"{metric}: {what} must be numbers, an array that was fetched, got {value!r}")
    return array
