"""Rows of losses of special tasks: probabilities, rankings, overlaps, pairs, alignments, trees of classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet.static import layers
from fleet_paddle.programs import composed
from fleet_paddle.rows.function import function
from fleet_paddle.rows.loss import reduced, reduced_variable

T = torch.Tensor

_NPAIR_WEIGHT = 0.25
"""How much the lengths of vectors count in `npair_loss`, before `l2_reg`."""


def _overlap(input: T, label: T, epsilon: float) -> T:
    truth = F.one_hot(torch.squeeze(label, -1).long(), input.shape[-1]).to(input.dtype)
    dims = tuple(range(1, input.dim()))
    both = torch.sum(input, dims) + torch.sum(truth, dims)
    return (1 - 2 * torch.sum(input * truth, dims) / (both + epsilon)).mean()


def _pairs(anchor: T, positive: T, labels: T, l2_reg: float) -> T:
    rows = torch.reshape(labels, (-1, 1))
    same = (rows == rows.T).to(anchor.dtype)
    target = same / torch.sum(same, 1, True)
    lengths = torch.sum(anchor * anchor, 1).mean() + torch.sum(positive * positive, 1).mean()
    losses = -torch.sum(target * torch.log_softmax(anchor @ positive.T, 1), 1)
    return losses.mean() + _NPAIR_WEIGHT * l2_reg * lengths


def _focal(logit: T, label: T, normalizer: T | None, alpha: float, gamma: float, reduction: str) -> T:
    truth = label.to(logit.dtype)
    said = torch.sigmoid(logit)
    doubt = truth * (1 - said) + (1 - truth) * said
    share = truth * alpha + (1 - truth) * (1 - alpha)
    loss = share * doubt**gamma * F.binary_cross_entropy_with_logits(logit, truth, reduction="none")
    return reduced(loss if normalizer is None else loss / normalizer, reduction)


def _ctc(
    scores: T, labels: T, input_lengths: T, label_lengths: T, blank: int, reduction: str, norm_by_times: bool
) -> T:
    if norm_by_times:
        slow = scores / input_lengths.view(1, -1, 1)
        scores = slow + (scores - slow).detach()
    steps, lengths = (torch.reshape(one, (-1,)).long() for one in (input_lengths, label_lengths))
    losses = F.ctc_loss(torch.log_softmax(scores, -1), labels.long(), steps, lengths, blank, "none")
    return reduced(losses / torch.clamp(lengths, 1).to(losses.device) if reduction == "mean" else losses, reduction)


def _of_tree(
    input: T,
    label: T,
    num_classes: int,
    weight: T,
    bias: T | None,
    path_table: T | None,
    path_code: T | None,
    is_sparse: bool,
) -> T:
    if num_classes < 2:
        raise UsageError(f"hsigmoid_loss: num_classes must be at least 2, got {num_classes}")
    if (path_table is None) != (path_code is None):
        raise UsageError("hsigmoid_loss: path_table and path_code must be given together")
    if path_table is None or path_code is None:
        path_table, path_code = _complete_tree(torch.reshape(label, (-1,)).long(), num_classes)
    passed = path_table >= 0
    nodes = torch.clamp(path_table, 0).long()
    scores = torch.einsum("bd,bnd->bn", input, F.embedding(nodes, weight, sparse=is_sparse))
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


FUNCTIONS = [
    function(
        "F.log_loss(input, label, epsilon=0.0001, name)",
        "The cross entropy of each probability, which is kept `epsilon` away from a logarithm of 0.",
        lambda input, label, epsilon: (
            -label * torch.log(input + epsilon) - (1 - label) * torch.log(1 - input + epsilon)
        ),
        layers.log_loss,
        num_operands=2,
    ),
    function(
        "F.margin_ranking_loss(input, other, label, margin=0.0, reduction='mean', name)",
        "By how much `input` fails to exceed `other` by the margin, where the label is 1; the reverse where it is -1.",
        lambda input, other, label, margin, way: reduced(torch.relu(label * (other - input) + margin), way),
        lambda x, y, label, margin, way, name: reduced_variable(
            layers.margin_rank_loss(label, x, y, margin), way, name
        ),
        "MarginRankingLoss",
        3,
    ),
    function(
        "F.dice_loss(input, label, epsilon=1e-05, name)",
        "1 - twice the overlap of probabilities [batch, ..., classes] and labels [batch, ..., 1] over both sums.",
        _overlap,
        lambda input, label, epsilon, name: composed.dice_loss(input, label, epsilon),
        num_operands=2,
    ),
    function(
        "F.npair_loss(anchor, positive, labels, l2_reg=0.002)",
        "The cross entropy of telling, for each anchor, which rows of `positive` have its label.",
        _pairs,
        None,
        num_operands=3,
    ),
    function(
        "F.sigmoid_focal_loss(logit, label, normalizer=None, alpha=0.25, gamma=2.0, reduction='sum', name)",
        "The cross entropy of sigmoid(logit), less of it where the answer is sure and right; divided by `normalizer`.",
        _focal,
        None,
        num_operands=2,
    ),
    function(
        "F.ctc_loss(log_probs, labels, input_lengths, label_lengths, blank=0, reduction='mean', norm_by_times=False)",
        """-log of the probability that scores [time, batch, classes] spell the labels, repeats and blanks left out.

    The scores are what comes before softmax. The mean is that of losses divided by the lengths of their labels. With
    `norm_by_times` gradients are divided by the number of time steps, and the loss is the same.
    """,
        _ctc,
        None,
        num_operands=4,
    ),
    function(
        "F.hsigmoid_loss(input, label, num_classes, weight, bias=None, path_table=None, path_code=None, "
        "is_sparse=False, name)",
        """The cross entropy of every decision on the way to a class in a binary tree, [batch, 1].

    The tree is complete, or its ways are given: `path_table` has the nodes of each example's, -1 after its end, and
    `path_code` which side it takes there. With `is_sparse` the weight's gradient has only the rows that were passed.
    """,
        _of_tree,
        None,
        num_operands=2,
    ),
]
