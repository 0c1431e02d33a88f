"""Measures of a model: each is updated locally, and its state can be added to another worker's."""

from fleet.metrics.calibration import Calibration as Calibration
from fleet.metrics.calibration import CalibrationError as CalibrationError
from fleet.metrics.grouped import GroupedAUC as GroupedAUC
from fleet.metrics.means import MAE as MAE
from fleet.metrics.means import RMSE as RMSE
from fleet.metrics.means import Accuracy as Accuracy
from fleet.metrics.means import LogLoss as LogLoss
from fleet.metrics.means import Mean as Mean
from fleet.metrics.metric import Metric as Metric
from fleet.metrics.metric import gather as gather
from fleet.metrics.ranking import MRR as MRR
from fleet.metrics.ranking import NDCG as NDCG
from fleet.metrics.ranking import HitRate as HitRate
from fleet.metrics.ranking import Recall as Recall
from fleet.metrics.roc import AUC as AUC
from fleet.metrics.roc import auc as auc

__all__ = [
    "AUC",
    "MAE",
    "MRR",
    "NDCG",
    "RMSE",
    "Accuracy",
    "Calibration",
    "CalibrationError",
    "GroupedAUC",
    "HitRate",
    "LogLoss",
    "Mean",
    "Metric",
    "Recall",
    "auc",
    "gather",
]
