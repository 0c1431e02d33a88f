"""Functions of variables with the names and arguments of version 2.0's `nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.functions import mean as _mean
from fleet.static.functions import sum as _sum
from fleet.static.variable import Variable

Reduction = Literal["mean", "sum", "none"]

elu = layers.elu
log_sigmoid = layers.logsigmoid
relu = layers.relu
relu6 = layers.relu6
sigmoid = layers.sigmoid
softsign = layers.softsign
square_error_cost = layers.square_error_cost
tanh = layers.tanh
tanhshrink = layers.tanh_shrink


def silu(x: Variable, name: str | None = None) -> Variable:
    """x * sigmoid(x)"""
    return layers.swish(x, name=name)


swish = silu


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:  # noqa: ARG001
    """x times the chance that a normal variable is below x."""
    return layers.gelu(x, approximate)


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """x above 0, negative_slope * x below."""
    return layers.leaky_relu(x, negative_slope, name)


def hardsigmoid(x: Variable, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> Variable:
    """slope * x + offset, kept between 0 and 1."""
    return layers.hard_sigmoid(x, slope, offset, name)


def softplus(x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None) -> Variable:
    """log(1 + exp(x)), which above `threshold` is x."""
    if beta != 1 or threshold != 20:
        raise NotSupportedError(f"softplus: beta must be 1 and threshold 20 for a variable, got {beta}, {threshold}")
    return layers.softplus(x, name)


def softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """exp(x) divided by its sum along a dimension."""
    return layers.softmax(x if dtype is None else layers.cast(x, dtype), name=name, axis=axis)


def log_softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """The logarithm of softmax."""
    return layers.log_softmax(x if dtype is None else layers.cast(x, dtype), axis, name)


def linear(x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """x times weight, which is [in, out], plus bias."""
    product = layers.matmul(x, weight, name=name)
    return product if bias is None else layers.elementwise_add(product, bias)


def one_hot(x: Variable, num_classes: int, name: str | None = None) -> Variable:  # noqa: ARG001
    """A 1 at the place of each label, as floats; the shape of the result is that of `x`, and [num_classes]."""
    return one_hot_v2(x, num_classes)


def one_hot_v2(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """The same in the spelling of 1.x, where `layers.one_hot` wants a last size of 1 instead."""
    return layers.one_hot(layers.unsqueeze(input, [input.ndim]), depth, allow_out_of_range)


def dropout(
    x: Variable,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """While training, each value is zero with chance `p`; with "upscale_in_train" those that stay grow."""
    if axis is not None:
        raise NotSupportedError("dropout: axis must be left out for a variable")
    kinds = {"upscale_in_train": "upscale_in_train", "downscale_in_infer": "downgrade_in_infer"}
    if mode not in kinds:
        raise UsageError(f"dropout: mode must be one of {', '.join(kinds)}, got {mode!r}")
    return layers.dropout(x, p, not training, name=name, dropout_implementation=kinds[mode])


def cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    soft_label: bool = False,
    axis: int = -1,
    name: str | None = None,
) -> Variable:
    """The cross entropy of softmax(input) and label."""
    if weight is not None:
        raise NotSupportedError("cross_entropy: weight must be left out for a variable; multiply the loss instead")
    if ignore_index != -100 and reduction == "mean":
        raise NotSupportedError(
            "cross_entropy: ignore_index with reduction='mean' is not built for a variable; take reduction='none' and "
            "divide by the number of labels that count"
        )
    loss = layers.softmax_with_cross_entropy(input, label, soft_label, ignore_index, axis=axis)
    return _reduced("cross_entropy", loss, reduction, name)


def softmax_with_cross_entropy(
    logits: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100, axis: int = -1
) -> Variable:
    """The cross entropy of softmax(logits) and label, for each sample."""
    return layers.softmax_with_cross_entropy(logits, label, soft_label, ignore_index, axis=axis)


def mse_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """The squared difference."""
    return _reduced("mse_loss", layers.square_error_cost(input, label), reduction, name)


def l1_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """The absolute difference."""
    return _reduced("l1_loss", layers.abs(input - label), reduction, name)


def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: Reduction = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The cross entropy of sigmoid(logit) and label."""
    if pos_weight is not None:
        raise NotSupportedError("binary_cross_entropy_with_logits: pos_weight is not built for a variable; use weight")
    loss = layers.sigmoid_cross_entropy_with_logits(logit, label)
    loss = loss if weight is None else loss * weight
    return _reduced("binary_cross_entropy_with_logits", loss, reduction, name)


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """The negative logarithm of the chance given to the label, for each sample."""
    return layers.log_loss(input, label, epsilon, name)


def _reduced(what: str, loss: Variable, reduction: str, name: str | None) -> Variable:
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"{what}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return loss if reduction == "none" else _mean(loss, name=name) if reduction == "mean" else _sum(loss, name=name)
