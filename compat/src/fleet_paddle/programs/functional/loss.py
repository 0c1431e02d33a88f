"""Losses of variables: of what a model says and what is right."""

from __future__ import annotations

from typing import Any, Literal

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable
from fleet_paddle.imperative.functions.table import mean as _mean
from fleet_paddle.imperative.functions.table import sum as _sum
from fleet_paddle.programs.composed import dice_loss as _dice_loss

Reduction = Literal["mean", "sum", "none"]
IGNORE = -100

square_error_cost = layers.square_error_cost


def cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = IGNORE,
    reduction: Reduction = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    name: str | None = None,
) -> Variable:
    """-log of the probability of each label, where `input` are scores, or probabilities without `use_softmax`.

    A label may have a size of 1 along `axis`, or lack that dimension. With `soft_label` it is a distribution over the
    classes. `weight` has a number for each class, and a mean is then the weighted one.
    """
    if not use_softmax and axis not in (-1, input.ndim - 1):
        raise NotSupportedError("cross_entropy: axis must be the last without use_softmax for a variable; transpose it")
    if weight is not None and soft_label:
        raise NotSupportedError("cross_entropy: weight with soft_label is not built for a variable; scale the label")
    is_flat = not soft_label and label.ndim == input.ndim - 1
    target = layers.unsqueeze(label, axis % input.ndim) if is_flat else label
    if use_softmax:
        loss = layers.softmax_with_cross_entropy(input, target, soft_label, ignore_index, axis=axis)
    else:
        loss = layers.cross_entropy(input, target, soft_label, ignore_index)
    counts = not soft_label and (weight is not None or reduction == "mean")
    share = _share(target, weight, ignore_index, loss.dtype) if counts else None
    if weight is not None and share is not None:
        loss = layers.elementwise_mul(loss, share)
    if reduction == "mean" and share is not None:
        total = layers.clip(layers.reduce_sum(share), 1e-12, float("inf"))
        return layers.elementwise_div(layers.reduce_sum(loss), total, name=name)
    if reduction == "none" and (is_flat or soft_label) and input.ndim > 1:
        loss = layers.squeeze(loss, [axis % input.ndim])
    return _reduced("cross_entropy", loss, reduction, name)


def _share(label: Variable, weight: Variable | None, ignore_index: int, dtype: str) -> Variable:
    """How much each label counts in a mean."""
    ignored = layers.fill_constant([1], label.dtype, ignore_index)
    counts = layers.cast(layers.not_equal(label, ignored), dtype)
    if weight is None:
        return counts
    known = layers.elementwise_mul(label, layers.cast(counts, label.dtype))
    return layers.elementwise_mul(layers.gather_nd(weight, layers.unsqueeze(known, [label.ndim])), counts)


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = IGNORE,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of each row, of shape [rows, 1]; with `return_softmax` the probabilities too."""
    is_flat = not soft_label and label.ndim == logits.ndim - 1
    target = layers.unsqueeze(label, axis % logits.ndim) if is_flat else label
    settings: Any = (soft_label, ignore_index, numeric_stable_mode, return_softmax, axis)
    return layers.softmax_with_cross_entropy(logits, target, *settings)


def nll_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = IGNORE,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """-input at each label, where `input` are logarithms of probabilities."""
    layer = Layer("nll_loss")
    inputs = {"X": layer.variable(input), "Label": layer.variable(label, "label")}
    loss = layer.apply("nll_loss", inputs, {"ignore_index": ignore_index}, input.dtype)
    share = _share(label, weight, ignore_index, loss.dtype) if weight is not None or reduction == "mean" else None
    if weight is not None and share is not None:
        loss = layers.elementwise_mul(loss, share)
    if reduction == "mean" and share is not None:
        return layers.elementwise_div(layers.reduce_sum(loss), layers.reduce_sum(share), name=name)
    return _reduced("nll_loss", loss, reduction, name)


def mse_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """The squared difference."""
    return _reduced("mse_loss", layers.square_error_cost(input, label), reduction, name)


def l1_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """The absolute difference."""
    return _reduced("l1_loss", layers.abs(input - label), reduction, name)


def smooth_l1_loss(
    input: Variable, label: Variable, reduction: Reduction = "mean", delta: float = 1.0, name: str | None = None
) -> Variable:
    """Half the squared error, from `delta` on growing no faster than the error."""
    return _reduced("smooth_l1_loss", layers.huber_loss(input, label, delta), reduction, name)


def binary_cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """The cross entropy of chances in [0, 1]."""
    layer = Layer("bce_loss")
    inputs = {"X": layer.variable(input), "Label": layer.variable(label, "label")}
    loss = layer.apply("bce_loss", inputs, {}, input.dtype)
    return _reduced("binary_cross_entropy", loss if weight is None else loss * weight, reduction, name)


def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: Reduction = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The cross entropy of sigmoid(logit) and label; `pos_weight` scales that of labels of 1."""
    if pos_weight is None:
        loss = layers.sigmoid_cross_entropy_with_logits(logit, label)
    else:
        of_ones, of_zeros = layers.softplus(-logit) * label * pos_weight, layers.softplus(logit) * (1.0 - label)
        loss = of_ones + of_zeros
    loss = loss if weight is None else loss * weight
    return _reduced("binary_cross_entropy_with_logits", loss, reduction, name)


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """The negative logarithm of the chance given to the label, for each sample."""
    return layers.log_loss(input, label, epsilon, name)


def kl_div(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """The divergence of `label` from exp(input); reduction mean, sum, none or batchmean."""
    return layers.kldiv_loss(input, label, reduction, name)


def margin_ranking_loss(
    input: Variable,
    other: Variable,
    label: Variable,
    margin: float = 0.0,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """How much `label` (1 or -1) times (input - other) falls short of `margin`."""
    loss = layers.margin_rank_loss(label, input, other, margin)
    return _reduced("margin_ranking_loss", loss, reduction, name)


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-05, name: str | None = None) -> Variable:  # noqa: ARG001
    """1 - how much chances and labels overlap, averaged over samples; `label` has a last size of 1."""
    return _dice_loss(input, label, epsilon)


def _reduced(what: str, loss: Variable, reduction: str, name: str | None) -> Variable:
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"{what}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return loss if reduction == "none" else _mean(loss, name=name) if reduction == "mean" else _sum(loss, name=name)
