"""Measures of a model: each is updated locally, and its state can be added to another worker's."""

from fleet.metrics.mean import Mean as Mean
from fleet.metrics.metric import Metric as Metric
from fleet.metrics.roc import AUC as AUC
from fleet.metrics.roc import auc as auc

__all__ = ["AUC", "Mean", "Metric", "auc"]
