"""Metrics: accuracy of a batch, and AUC from histograms that persist between batches."""

from __future__ import annotations

import torch

from fleet.errors import UsageError
from fleet.metrics.roc import area
from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared


def _infer_accuracy(infer: Infer) -> None:
    indices, label = infer.var("Indices"), infer.var("Label")
    infer.require_dtype("Label", INTEGERS)
    if len(indices.shape) != 2 or not may_equal(label.shape, (indices.shape[0], 1)):
        raise infer.fail(
            f"Label {label.name!r} must have shape [n, 1] for predictions of shape {list(indices.shape)}, "
            f"got {list(label.shape)}"
        )
    infer.set("Accuracy", [1], "float32")
    infer.set("Correct", [1], "int64")
    infer.set("Total", [1], "int64")


def _accuracy(out: torch.Tensor, indices: torch.Tensor, label: torch.Tensor) -> tuple[torch.Tensor, ...]:  # noqa: ARG001
    # A label is among the k indexes of its row at most once, so what is equal need only be counted.
    correct = (indices == label).sum().view(1)
    total = len(indices)
    return correct.float() / total, correct, torch.full((1,), total, dtype=torch.int64, device=indices.device)


register(
    "accuracy", inputs=("Out", "Indices", "Label"), outputs=("Accuracy", "Correct", "Total"), infer=_infer_accuracy
)(lambda op, lowering: compared(_accuracy, op, lowering, "Indices", "Label", num_dims=1))


def _infer_auc(infer: Infer) -> None:
    predict, label, parts = infer.var("Predict"), infer.var("Label"), infer.attr("num_thresholds")
    infer.require_dtype("Predict", FLOATS)
    if infer.attr("curve") not in ("ROC", "PR"):
        raise infer.fail(f"curve must be ROC or PR, got {infer.attr('curve')!r}")
    if len(predict.shape) != 2 or predict.shape[1] not in (1, 2):
        raise infer.fail(
            f"Predict {predict.name!r} must have shape [n, 2], a softmax over two classes, or [n, 1], the "
            f"probability of class 1, got {list(predict.shape)}"
        )
    if not may_equal(label.shape[:1], predict.shape[:1]) or label.shape[1:] not in ((), (1,)):
        raise infer.fail(f"Label {label.name!r} must have shape {[predict.shape[0], 1]}, got {list(label.shape)}")
    for slot in ("StatPos", "StatNeg"):
        stat = infer.var(slot)
        if stat.dtype != "int64" or stat.shape != (max(1, infer.attr("slide_steps")), parts + 1):
            raise infer.fail(
                f"{slot} {stat.name!r} must be int64 [slide_steps or 1, {parts + 1}], got {stat.dtype} {stat.shape}"
            )
    infer.set("AUC", [1], "float64")


@register(
    "auc",
    inputs=("Predict", "Label", "StatPos", "StatNeg"),
    outputs=("AUC", "StatPosOut", "StatNegOut"),
    attrs={"curve": "ROC", "num_thresholds": 4095, "slide_steps": 0},
    infer=_infer_auc,
    is_metric=True,
)
def _auc(op: Operator, lowering: Lowering) -> Kernel:
    """Scores are counted by the part of [0, 1] that they lie in, for each label.

    With `slide_steps` the counts are those of so many last batches, otherwise of all. Where they have one label only
    the result is 0, so that a mean over batches stays a number.
    """
    parts, steps = op.attr("num_thresholds"), op.attr("slide_steps")
    measure = area if op.attr("curve") == "ROC" else _precision_recall
    is_checked = lowering.device.type == "cpu"  # elsewhere looking at the scores would wait for them

    def auc(predict: torch.Tensor, label: torch.Tensor, pos: torch.Tensor, neg: torch.Tensor) -> torch.Tensor:
        scores = predict[:, -1]
        if is_checked and len(scores):
            _check(scores, op.input("Predict")[0])
        cells = (scores.double() * parts).long().clamp_(0, parts)
        cells += (label.reshape(-1) != 0) * (parts + 1)
        counts = torch.zeros(2 * (parts + 1), dtype=torch.int64, device=pos.device)
        counts.scatter_add_(0, cells, torch.ones_like(cells))
        for stat, new in ((neg, counts[: parts + 1]), (pos, counts[parts + 1 :])):
            if not steps:
                stat.add_(new)
                continue
            if steps > 1:
                stat[:-1] = stat[1:].clone()
            stat[-1] = new
        return measure(neg.sum(0).double(), pos.sum(0).double()).nan_to_num_(0.0).view(1)

    return compared(auc, op, lowering, "Predict", "Label", num_dims=1)


def _check(scores: torch.Tensor, name: str) -> None:
    low, high = scores.aminmax()
    if not (low >= 0 and high <= 1):
        raise UsageError(
            f"auc: {name!r} must lie in [0, 1], got {float(low):g} to {float(high):g}; apply softmax or sigmoid"
        )


def _precision_recall(negatives: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """The mean precision at the thresholds, weighted by what each adds to recall; NaN without positives."""
    true, false = positives.flip(0).cumsum(0), negatives.flip(0).cumsum(0)
    precision = true / (true + false).clamp_min(1)
    return (precision * positives.flip(0)).sum() / positives.sum()
