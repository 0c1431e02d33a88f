"""Losses of special tasks: pairs, rare classes, alignments, trees of classes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.programs.variables.computed import computed
from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.registry import Infer

T = torch.Tensor

_NPAIR_WEIGHT = 0.25
"""How much the lengths of vectors count in `npair_loss`, before `l2_reg`."""


@computed(
    "npair_loss",
    "F.npair_loss(anchor, positive, labels, l2_reg=0.002)",
    {"l2_reg": 0.002},
    inputs=("Anchor", "Positive", "Labels"),
    wrt=("Anchor", "Positive"),
    v1="npair_loss(anchor, positive, labels, l2_reg=0.002)",
)
def _pairs(anchor: T, positive: T, labels: T, l2_reg: float) -> T:
    """The cross entropy of telling, for each anchor, which rows of `positive` have its label."""
    rows = torch.reshape(labels, (-1, 1))
    same = (rows == rows.T).to(anchor.dtype)
    target = same / torch.sum(same, 1, True)
    lengths = torch.sum(anchor * anchor, 1).mean() + torch.sum(positive * positive, 1).mean()
    losses = -torch.sum(target * torch.log_softmax(anchor @ positive.T, 1), 1)
    return losses.mean() + _NPAIR_WEIGHT * l2_reg * lengths


@computed(
    "sigmoid_focal_loss",
    "F.sigmoid_focal_loss(logit, label, normalizer=None, alpha=0.25, gamma=2.0, reduction='sum', name)",
    {"alpha": 0.25, "gamma": 2.0, "reduction": "sum"},
    inputs=("X", "Label", "Normalizer?"),
)
def _focal(logit: T, label: T, normalizer: T | None, alpha: float, gamma: float, reduction: str) -> T:
    """The cross entropy of sigmoid(logit), less of it where the answer is sure and right; divided by `normalizer`."""
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"sigmoid_focal_loss: reduction must be mean, sum or none, got {reduction!r}")
    truth = label.to(logit.dtype)
    said = torch.sigmoid(logit)
    doubt = truth * (1 - said) + (1 - truth) * said
    share = truth * alpha + (1 - truth) * (1 - alpha)
    loss = share * doubt**gamma * F.binary_cross_entropy_with_logits(logit, truth, reduction="none")
    loss = loss if normalizer is None else loss / normalizer
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def spelled(scores: T, labels: T, input_lengths: T, label_lengths: T, blank: int, norm_by_times: bool) -> T:
    """-log of the probability that scores [time, batch, classes] spell the labels, for each of the batch."""
    if norm_by_times:
        slow = scores / input_lengths.view(1, -1, 1)
        scores = slow + (scores - slow).detach()
    steps, lengths = (torch.reshape(one, (-1,)).long() for one in (input_lengths, label_lengths))
    return F.ctc_loss(torch.log_softmax(scores, -1), labels.long(), steps, lengths, blank, "none")


def _infer_ctc(infer: Infer) -> None:
    infer.require_dtype("Logits", FLOATS)
    infer.require_rank("Logits", 3)
    for slot in ("Label", "LogitsLength", "LabelLength"):
        infer.require_dtype(slot, INTEGERS)
    classes, blank = infer.shape("Logits")[2], infer.attr("blank")
    if not 0 <= blank < classes:
        raise infer.fail(f"blank must be one of {classes} classes, got {blank}")
    infer.set("Loss", [infer.shape("Logits")[1]], infer.dtype("Logits"))


@computed(
    "warpctc",
    attrs={"blank": 0, "norm_by_times": False},
    inputs=("Logits", "Label", "LogitsLength", "LabelLength"),
    outputs=("Loss",),
    wrt=("Logits",),
    infer=_infer_ctc,
)
def _ctc(scores: T, labels: T, input_lengths: T, label_lengths: T, blank: int, norm_by_times: bool) -> T:
    """-log of the probability that scores [time, batch, classes] spell the labels, for each of the batch."""
    return spelled(scores, labels, input_lengths, label_lengths, blank, norm_by_times)


_TREE = ("X", "Label", "W", "Bias?", "PathTable?", "PathCode?")


@computed("hsigmoid_loss", attrs={"num_classes": 2}, inputs=_TREE, wrt=("X", "W", "Bias"))
def of_tree(
    input: T,
    label: T,
    weight: T,
    bias: T | None,
    path_table: T | None,
    path_code: T | None,
    num_classes: int,
    is_sparse: bool = False,
) -> T:
    """The cross entropy of every decision on the way to a class in a binary tree, [batch, 1]."""
    if num_classes < 2:
        raise UsageError(f"hsigmoid_loss: num_classes must be at least 2, got {num_classes}")
    if (path_table is None) != (path_code is None):
        raise UsageError("hsigmoid_loss: path_table and path_code must be given together")
    if path_table is None or path_code is None:
        path_table, path_code = _complete_tree(torch.reshape(label, (-1,)).long(), num_classes)
    passed = path_table >= 0
    nodes = torch.clamp(path_table, 0).long()
    scores: Any = torch.einsum("bd,bnd->bn", input, F.embedding(nodes, weight, sparse=is_sparse))
    if bias is not None:
        scores = scores + torch.reshape(bias, (-1,))[nodes]
    losses = F.binary_cross_entropy_with_logits(scores, path_code.to(scores.dtype), reduction="none")
    return torch.sum(torch.where(passed, losses, torch.zeros_like(losses)), 1, True)


def _complete_tree(label: T, num_classes: int) -> tuple[T, T]:
    """Nodes and sides on the way to each class: numbered as a heap, whose leaves are num_classes and on."""
    leaf = (label + num_classes).unsqueeze(1)
    depth = torch.arange((2 * num_classes - 1).bit_length() - 1, device=label.device)
    above = leaf >> (depth + 1)
    return torch.where(above > 0, above - 1, -1), (leaf >> depth) & 1
