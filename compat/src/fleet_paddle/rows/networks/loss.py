"""Rows of losses: of what a model says and what is right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.rows.function import function
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

T = torch.Tensor

_REDUCTIONS = frozenset(("mean", "sum", "none"))


def checked(reduction: str, *also: str) -> str:
    """The same; UsageError if it is no reduction."""
    if reduction in _REDUCTIONS:
        return reduction
    known = ("mean", "sum", *also, "none")
    if reduction not in known:
        raise UsageError(f"reduction must be {', '.join(known[:-1])} or none, got {reduction!r}")
    return reduction


def reduced(loss: T, reduction: str) -> T:
    """The mean, the sum, or all of them."""
    checked(reduction)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def reduced_variable(loss: Variable, reduction: str, name: str | None) -> Variable:
    """The same of a variable."""
    checked(reduction)
    if reduction == "none":
        return loss
    return layers.mean(loss, name) if reduction == "mean" else layers.reduce_sum(loss, name=name)


def _like(input: T, label: T) -> T:
    """Labels of another shape are spread as arithmetic would; torch warns of it, and a user here means it."""
    return label if label.shape == input.shape else label.expand_as(input)


def _spread(loss: Callable[..., T]) -> Callable[..., T]:
    """A loss of torch whose labels are spread, once its reduction is known to be one."""

    def compute(input: T, label: T, reduction: str) -> T:
        checked(reduction)
        return loss(input, _like(input, label), reduction=reduction)

    return compute


def _cross_entropy(
    input: T, label: T, weight: T | None, ignore: int, reduction: str, soft_label: bool, axis: int, use_softmax: bool
) -> T:
    checked(reduction)
    scores = torch.log_softmax(input, axis) if use_softmax else torch.log(input)
    rank = scores.dim()
    scores = scores if rank < 2 or axis in (1, 1 - rank) else torch.movedim(scores, axis, 1)
    if soft_label:
        target = label.movedim(axis, 1) if label.dim() > 1 else label
        if weight is not None:
            target = target * weight.view(-1, *[1] * (target.dim() - 2))
        made = reduced(-(target * scores).sum(min(1, rank - 1)), reduction)
        return made.unsqueeze(axis) if reduction == "none" and rank > 1 else made
    label = _without_extra_ones(label, rank)
    has_last = label.dim() == rank and label.shape[axis] == 1
    hard = torch.squeeze(label, axis) if has_last else label
    hard = hard if hard.dtype is torch.int64 else hard.long()
    made = F.nll_loss(scores, hard, weight, ignore_index=ignore, reduction=reduction)
    if reduction == "mean" and (made.is_cuda or math.isnan(made.item())):  # looking would stop the GPU
        made = torch.where((hard == ignore).all(), made.new_zeros(()), made)
    return made.unsqueeze(axis) if has_last and reduction == "none" else made


def _flat(label: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Labels without a last dimension of size 1 where the scores have as many: [batch, 1] beside [batch, classes]."""
    return label.squeeze(-1) if label.dim() == scores.dim() and label.shape[-1] == 1 else label


def _without_extra_ones(label: T, rank: int) -> T:
    """Metrics give a label of [batch, time, 1] one more dimension of size 1; PaddlePaddle looks at the first `rank`."""
    extra = label.shape[rank:]
    return label.flatten(rank - 1) if extra and all(size == 1 for size in extra) else label


def _with_axis(label: Variable, like: Variable, soft_label: bool, axis: int) -> Variable:
    """A label of classes that lacks the dimension `axis` gets it."""
    is_flat = not soft_label and label.ndim == like.ndim - 1
    return layers.unsqueeze(label, axis % like.ndim) if is_flat else label


def _cross_entropy_of_variables(
    input: Variable,
    label: Variable,
    weight: Variable | None,
    ignore: int,
    reduction: str,
    soft_label: bool,
    axis: int,
    use_softmax: bool,
    name: str | None,
) -> Variable:
    target = _with_axis(label, input, soft_label, axis)
    if not use_softmax and axis not in (-1, input.ndim - 1):
        input, target, axis = _to_last(input, axis), _to_last(target, axis), -1
    if weight is not None and soft_label:
        sizes = [1] * input.ndim
        sizes[axis] = weight.shape[0]
        target, weight = layers.elementwise_mul(target, layers.reshape(weight, sizes)), None
    if use_softmax:
        loss = layers.softmax_with_cross_entropy(input, target, soft_label, ignore, axis=axis)
    else:
        loss = layers.cross_entropy(input, target, soft_label, ignore)
    counts = not soft_label and (weight is not None or reduction == "mean")
    share = _share(target, weight, ignore, loss.dtype) if counts else None
    if weight is not None and share is not None:
        loss = layers.elementwise_mul(loss, share)
    if reduction == "mean" and share is not None:
        total = layers.clip(layers.reduce_sum(share), 1e-12, float("inf"))
        return layers.elementwise_div(layers.reduce_sum(loss), total, name=name)
    if reduction == "none" and target is not label and not soft_label and input.ndim > 1:
        loss = layers.squeeze(loss, [axis % input.ndim])
    return reduced_variable(loss, reduction, name)


def _to_last(x: Variable, axis: int) -> Variable:
    """With a dimension after all others."""
    return layers.transpose(x, [*(one for one in range(x.ndim) if one != axis % x.ndim), axis % x.ndim])


def _share(label: Variable, weight: Variable | None, ignore: int, dtype: str) -> Variable:
    """How much each label counts in a mean."""
    ignored = layers.fill_constant([1], label.dtype, ignore)
    counts = layers.cast(layers.not_equal(label, ignored), dtype)
    if weight is None:
        return counts
    known = layers.elementwise_mul(label, layers.cast(counts, label.dtype))
    return layers.elementwise_mul(layers.gather_nd(weight, layers.unsqueeze(known, [label.ndim])), counts)


def _with_softmax(logits: T, label: T, soft_label: bool, ignore: int, _: bool, return_softmax: bool, axis: int) -> Any:
    loss = _cross_entropy(logits, label, None, ignore, "none", soft_label, axis, True)
    loss = loss if loss.dim() == logits.dim() else loss.unsqueeze(axis)
    return (loss, torch.softmax(logits, axis)) if return_softmax else loss


def _nll_of_variables(
    input: Variable, label: Variable, weight: Variable | None, ignore: int, reduction: str, name: str | None
) -> Variable:
    layer = LayerBuilder("nll_loss")
    inputs = {"X": layer.variable(input), "Label": layer.variable(label, "label")}
    loss = layer.apply("nll_loss", inputs, {"ignore_index": ignore}, input.dtype)
    share = _share(label, weight, ignore, loss.dtype) if weight is not None or reduction == "mean" else None
    if weight is not None and share is not None:
        loss = layers.elementwise_mul(loss, share)
    if reduction == "mean" and share is not None:
        return layers.elementwise_div(layers.reduce_sum(loss), layers.reduce_sum(share), name=name)
    return reduced_variable(loss, reduction, name)


def _binary_of_variables(
    input: Variable, label: Variable, weight: Variable | None, reduction: str, name: str | None
) -> Variable:
    layer = LayerBuilder("bce_loss")
    inputs = {"X": layer.variable(input), "Label": layer.variable(label, "label")}
    loss = layer.apply("bce_loss", inputs, {}, input.dtype)
    return reduced_variable(loss if weight is None else loss * weight, reduction, name)


def _logits_of_variables(
    logit: Variable, label: Variable, weight: Any, reduction: str, pos_weight: Any, name: str | None
) -> Variable:
    if pos_weight is None:
        loss = layers.sigmoid_cross_entropy_with_logits(logit, label)
    else:
        of_ones, of_zeros = layers.softplus(-logit) * label * pos_weight, layers.softplus(logit) * (1.0 - label)
        loss = of_ones + of_zeros
    return reduced_variable(loss if weight is None else loss * weight, reduction, name)


def _divergence(input: T, label: T, reduction: str) -> T:
    if checked(reduction, "batchmean") == "mean":
        return F.kl_div(input, label, reduction="none").mean()
    return F.kl_div(input, label, reduction=reduction)


FUNCTIONS = [
    function(
        "F.square_error_cost(input, label)",
        "(input - label) squared, element by element.",
        lambda input, label: torch.square(input - label),
        layers.square_error_cost,
        num_operands=2,
    ),
    function(
        "F.mse_loss(input, label, reduction='mean', name)",
        "The squared error: its mean, its sum, or all of it.",
        _spread(F.mse_loss),
        lambda x, y, reduction, name: reduced_variable(layers.square_error_cost(x, y), reduction, name),
        "MSELoss",
        2,
    ),
    function(
        "F.l1_loss(input, label, reduction='mean', name)",
        "The absolute error.",
        _spread(F.l1_loss),
        lambda x, y, reduction, name: reduced_variable(layers.abs(x - y), reduction, name),
        "L1Loss",
        2,
    ),
    function(
        "F.smooth_l1_loss(input, label, reduction='mean', delta=1.0, name)",
        "Half the squared error, from `delta` on growing no faster than the error.",
        lambda input, label, reduction, delta: F.huber_loss(input, label, checked(reduction), delta),
        lambda x, y, reduction, delta, name: reduced_variable(layers.huber_loss(x, y, delta), reduction, name),
        "SmoothL1Loss",
        2,
    ),
    function(
        "F.cross_entropy(input, label, weight=None, ignore_index=-100, reduction='mean', soft_label=False, axis=-1, "
        "use_softmax=True, name)",
        """-log of the probability of each label, where `input` are scores, or probabilities without `use_softmax`.

    A label may have a size of 1 along `axis`, or lack that dimension. With `soft_label` it is a distribution over the
    classes. `weight` has a number for each class, and a mean is then the weighted one. Without a reduction the losses
    have the label's shape, with a size of 1 along `axis` where that is a distribution. The mean over labels that are
    all ignored is 0.
    """,
        _cross_entropy,
        _cross_entropy_of_variables,
        "CrossEntropyLoss",
        2,
    ),
    function(
        "F.softmax_with_cross_entropy(logits, label, soft_label=False, ignore_index=-100, numeric_stable_mode=True, "
        "return_softmax=False, axis=-1)",
        "The cross entropy of each row, of shape [rows, 1]; with `return_softmax` the probabilities too.",
        _with_softmax,
        lambda logits, label, soft_label, *settings: layers.softmax_with_cross_entropy(
            logits, _with_axis(label, logits, soft_label, settings[-1]), soft_label, *settings
        ),
        num_operands=2,
    ),
    function(
        "F.nll_loss(input, label, weight=None, ignore_index=-100, reduction='mean', name)",
        "-input at each label, where `input` are logarithms of probabilities.",
        lambda input, label, weight, ignore, reduction: F.nll_loss(
            input, _flat(label, input).long(), weight, ignore_index=ignore, reduction=checked(reduction)
        ),
        _nll_of_variables,
        "NLLLoss",
        2,
    ),
    function(
        "F.binary_cross_entropy(input, label, weight=None, reduction='mean', name)",
        "The cross entropy of probabilities in [0, 1].",
        lambda input, label, weight, reduction: F.binary_cross_entropy(
            input, label, weight, reduction=checked(reduction)
        ),
        _binary_of_variables,
        "BCELoss",
        2,
    ),
    function(
        "F.binary_cross_entropy_with_logits(logit, label, weight=None, reduction='mean', pos_weight=None, name)",
        "The cross entropy of sigmoid(logit) and label; `pos_weight` scales that of labels of 1.",
        lambda logit, label, weight, reduction, pos_weight: F.binary_cross_entropy_with_logits(
            logit, label, weight, reduction=checked(reduction), pos_weight=pos_weight
        ),
        _logits_of_variables,
        "BCEWithLogitsLoss",
        2,
    ),
    function(
        "F.kl_div(input, label, reduction='mean', name)",
        "The divergence of `label` from exp(input); reduction mean, sum, none or batchmean.",
        _divergence,
        layers.kldiv_loss,
        "KLDivLoss",
        2,
    ),
]
