"""Rows of losses of special tasks: probabilities, rankings, overlaps, pairs, alignments, trees of classes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.programs.networks import composed
from fleet_paddle.programs.networks.ctc import ctc_losses
from fleet_paddle.programs.ops.losses.special_loss import of_tree, spelled
from fleet_paddle.programs.variables.computed import add
from fleet_paddle.rows.function import function
from fleet_paddle.rows.networks.loss import checked, reduced, reduced_variable
from fleet_programs import layers
from fleet_programs.program.variable import Variable

T = torch.Tensor


def _overlap(input: T, label: T, epsilon: float) -> T:
    truth = F.one_hot(torch.squeeze(label, -1).long(), input.shape[-1]).to(input.dtype)
    dims = tuple(range(1, input.dim()))
    both = torch.sum(input, dims) + torch.sum(truth, dims)
    return (1 - 2 * torch.sum(input * truth, dims) / (both + epsilon)).mean()


def _ctc(
    scores: T, labels: T, input_lengths: T, label_lengths: T, blank: int, reduction: str, norm_by_times: bool
) -> T:
    losses = spelled(scores, labels, input_lengths, label_lengths, blank, norm_by_times)
    if checked(reduction) != "mean":
        return reduced(losses, reduction)
    lengths = torch.clamp(torch.reshape(label_lengths, (-1,)), 1).to(losses.device)
    return reduced(losses / lengths, reduction)


def _ctc_of_variables(
    scores: Variable, labels: Variable, steps: Variable, lengths: Variable, blank: int, reduction: str, by_times: bool
) -> Variable:
    losses = ctc_losses(scores, labels, steps, lengths, blank, by_times)
    if checked(reduction) == "mean":
        long = layers.clip(layers.cast(layers.reshape(lengths, [-1]), losses.dtype), 1.0, float("inf"))
        losses = layers.elementwise_div(losses, long)
    return reduced_variable(losses, reduction, None)


def _tree_of_variables(
    input: Variable, label: Variable, num_classes: int, weight: Variable, bias: Any, table: Any, code: Any, *more: Any
) -> Any:
    inputs = {"X": input, "Label": label, "W": weight, "Bias": bias, "PathTable": table, "PathCode": code}
    return add("hsigmoid_loss", inputs, {"num_classes": int(num_classes)}, more[-1])


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
        "F.ctc_loss(log_probs, labels, input_lengths, label_lengths, blank=0, reduction='mean', norm_by_times=False)",
        """-log of the probability that scores [time, batch, classes] spell the labels, repeats and blanks left out.

    The scores are what comes before softmax. The mean is that of losses divided by the lengths of their labels. With
    `norm_by_times` gradients are divided by the number of time steps, and the loss is the same.
    """,
        _ctc,
        _ctc_of_variables,
        num_operands=4,
    ),
    function(
        "F.hsigmoid_loss(input, label, num_classes, weight, bias=None, path_table=None, path_code=None, "
        "is_sparse=False, name)",
        """The cross entropy of every decision on the way to a class in a binary tree, [batch, 1].

    The tree is complete, or its ways are given: `path_table` has the nodes of each example's, -1 after its end, and
    `path_code` which side it takes there. With `is_sparse` the weight's gradient, of tensors, has only the rows that
    were passed.
    """,
        lambda input, label, num_classes, weight, bias, table, code, is_sparse: of_tree(
            input, label, weight, bias, table, code, num_classes, is_sparse
        ),
        _tree_of_variables,
        num_operands=2,
    ),
]
