"""Losses of special tasks: chances, rankings, overlaps, pairs, alignments, trees of classes."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.imperative.nn.functional.loss import reduced
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "ctc_loss",
    "dice_loss",
    "hsigmoid_loss",
    "log_loss",
    "margin_ranking_loss",
    "npair_loss",
    "sigmoid_focal_loss",
]

_NPAIR_WEIGHT = 0.25
"""How much the lengths of vectors count in `npair_loss`, before `l2_reg`."""


def log_loss(input: torch.Tensor, label: torch.Tensor, epsilon: float = 1e-4, name: str | None = None) -> Tensor:
    """The cross entropy of each chance, which is kept `epsilon` away from a logarithm of 0."""
    return own(-label * torch.log(input + epsilon) - (1 - label) * torch.log(1 - input + epsilon))


def margin_ranking_loss(
    input: torch.Tensor,
    other: torch.Tensor,
    label: torch.Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """By how much `input` fails to exceed `other` by the margin, where the label is 1; the reverse where it is -1."""
    return reduced(torch.relu(label * (other - input) + margin), reduction)


def dice_loss(input: torch.Tensor, label: torch.Tensor, epsilon: float = 1e-5, name: str | None = None) -> Tensor:
    """1 - twice the overlap of chances [batch, ..., classes] and labels [batch, ..., 1], divided by both sums."""
    truth = F.one_hot(torch.squeeze(label, -1).long(), input.shape[-1]).to(input.dtype)
    dims = tuple(range(1, input.dim()))
    both = torch.sum(input, dims) + torch.sum(truth, dims)
    return own((1 - 2 * torch.sum(input * truth, dims) / (both + epsilon)).mean())


def npair_loss(anchor: torch.Tensor, positive: torch.Tensor, labels: torch.Tensor, l2_reg: float = 0.002) -> Tensor:
    """The cross entropy of telling, for each anchor, which rows of `positive` have its label."""
    rows = torch.reshape(labels, (-1, 1))
    same = (rows == rows.T).to(anchor.dtype)
    target = same / torch.sum(same, 1, True)
    lengths = torch.sum(anchor * anchor, 1).mean() + torch.sum(positive * positive, 1).mean()
    losses = -torch.sum(target * torch.log_softmax(anchor @ positive.T, 1), 1)
    return own(losses.mean() + _NPAIR_WEIGHT * l2_reg * lengths)


def sigmoid_focal_loss(
    logit: torch.Tensor,
    label: torch.Tensor,
    normalizer: torch.Tensor | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Tensor:
    """The cross entropy of sigmoid(logit), less of it where the answer is sure and right; divided by `normalizer`."""
    truth = label.to(logit.dtype)
    chance = torch.sigmoid(logit)
    doubt = truth * (1 - chance) + (1 - truth) * chance
    share = truth * alpha + (1 - truth) * (1 - alpha)
    loss = share * doubt**gamma * F.binary_cross_entropy_with_logits(logit, truth, reduction="none")
    return reduced(loss if normalizer is None else loss / normalizer, reduction)


def ctc_loss(
    log_probs: torch.Tensor,
    labels: torch.Tensor,
    input_lengths: torch.Tensor,
    label_lengths: torch.Tensor,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Tensor:
    """-log of the chance that scores [time, batch, classes] spell the labels, repeats and blanks left out.

    The scores are what comes before softmax. The mean is that of losses divided by the lengths of their labels. With
    `norm_by_times` gradients are divided by the number of time steps, and the loss is the same.
    """
    scores = log_probs
    if norm_by_times:
        slow = scores / input_lengths.view(1, -1, 1)
        scores = slow + (scores - slow).detach()
    steps, lengths = (torch.reshape(one, (-1,)).long() for one in (input_lengths, label_lengths))
    losses = F.ctc_loss(torch.log_softmax(scores, -1), labels.long(), steps, lengths, blank, "none")
    return reduced(losses / torch.clamp(lengths, 1).to(losses.device) if reduction == "mean" else losses, reduction)


def hsigmoid_loss(
    input: torch.Tensor,
    label: torch.Tensor,
    num_classes: int,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    path_table: torch.Tensor | None = None,
    path_code: torch.Tensor | None = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of every decision on the way to a class in a binary tree, [batch, 1].

    The tree is complete, or its ways are given: `path_table` has the nodes of each example's, -1 after its end, and
    `path_code` which side it takes there. With `is_sparse` the weight's gradient has only the rows that were passed.
    """
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
    return own(torch.sum(torch.where(passed, losses, torch.zeros_like(losses)), 1, True))


def _complete_tree(label: torch.Tensor, num_classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes and sides on the way to each class: numbered as a heap, whose leaves are num_classes and on."""
    leaf = (label + num_classes).unsqueeze(1)
    depth = torch.arange((2 * num_classes - 1).bit_length() - 1, device=label.device)
    above = leaf >> (depth + 1)
    return torch.where(above > 0, above - 1, -1), (leaf >> depth) & 1
