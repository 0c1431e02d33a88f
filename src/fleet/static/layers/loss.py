"""Losses. Those of rows have shape [rows, 1]; take `mean` of them for `minimize`."""

from __future__ import annotations

from typing import Any, Literal, overload

from fleet.errors import NotSupportedError
from fleet.static.layers.helper import Layer
from fleet.static.layers.table import mean
from fleet.static.registry import may_equal
from fleet.static.variable import Variable

__all__ = [
    "bpr_loss",
    "cos_sim",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "kldiv_loss",
    "log_loss",
    "margin_rank_loss",
    "mse_loss",
    "rank_loss",
    "sigmoid_cross_entropy_with_logits",
    "smooth_l1",
    "softmax_with_cross_entropy",
    "square_error_cost",
]

IGNORE = -100


def _loss(
    layer: Layer, type: str, inputs: dict[str, Any], out: str = "Out", attrs: dict[str, Any] | None = None
) -> Variable:
    """Add an operator whose output has the dtype of its first input."""
    for slot, value in inputs.items():
        layer.variable(value, slot.lower())
    loss = layer.temporary(next(iter(inputs.values())).dtype)
    layer.op(type, inputs, {out: loss}, attrs or {})
    return loss


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = IGNORE) -> Variable:
    """-log of the probability that `input` gives to each row's label; 0 for rows labelled `ignore_index`.

    `input` are probabilities, as softmax gives them. With `soft_label` the label is a distribution over the classes.
    """
    attrs = {"soft_label": bool(soft_label), "ignore_index": int(ignore_index)}
    return _loss(Layer("cross_entropy"), "cross_entropy", {"X": input, "Label": label}, "Y", attrs)


@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = ...,
    ignore_index: int = ...,
    numeric_stable_mode: bool = ...,
    return_softmax: Literal[False] = ...,
    axis: int = ...,
) -> Variable: ...
@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = ...,
    ignore_index: int = ...,
    numeric_stable_mode: bool = ...,
    *,
    return_softmax: Literal[True],
    axis: int = ...,
) -> tuple[Variable, Variable]: ...
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = IGNORE,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Variable | tuple[Variable, Variable]:
    """The cross entropy of softmax(logits), in one stable step; with `return_softmax` (loss, softmax)."""
    layer = Layer("softmax_with_cross_entropy")
    if not numeric_stable_mode:
        raise NotSupportedError(
            "softmax_with_cross_entropy: numeric_stable_mode must be True; there is no other way here"
        )
    inputs = {"Logits": layer.variable(logits, "logits"), "Label": layer.variable(label, "label")}
    loss, softmax = layer.temporary(logits.dtype), layer.temporary(logits.dtype, stop_gradient=True)
    attrs = {"soft_label": bool(soft_label), "ignore_index": int(ignore_index), "axis": int(axis)}
    layer.op("softmax_with_cross_entropy", inputs, {"Softmax": softmax, "Loss": loss}, attrs)
    if not return_softmax:
        return loss
    # The op's own Softmax takes no gradient, so one that the user goes on with is computed apart.
    return loss, layer.apply("softmax", {"X": logits}, {"axis": int(axis)}, logits.dtype)


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared, element by element."""
    layer = Layer("square_error_cost")
    inputs = {"X": layer.variable(input), "Y": layer.variable(label, "label")}
    if not may_equal(input.shape, label.shape):
        raise layer.error(
            f"input {input.name!r} has shape {list(input.shape)} and label {label.name!r} has {list(label.shape)}; "
            "make them equal"
        )
    difference = layer.apply("elementwise_sub", inputs, {}, input.dtype)
    return layer.apply("square", {"X": difference}, {}, input.dtype)


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of the squared errors."""
    return mean(square_error_cost(input, label))


def sigmoid_cross_entropy_with_logits(
    x: Variable, label: Variable, ignore_index: int = IGNORE, name: str | None = None, normalize: bool = False
) -> Variable:
    """The cross entropy of sigmoid(x) with a chance in [0, 1], element by element; 0 where the label is `ignore_index`.

    With `normalize` it is divided by the number of elements that are not ignored.
    """
    attrs = {"ignore_index": int(ignore_index), "normalize": bool(normalize)}
    layer = Layer("sigmoid_cross_entropy_with_logits", name)
    return _loss(layer, "sigmoid_cross_entropy_with_logits", {"X": x, "Label": label}, "Out", attrs)


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), for chances in [0, 1]."""
    inputs = {"Predicted": input, "Labels": label}
    return _loss(Layer("log_loss", name), "log_loss", inputs, "Loss", {"epsilon": float(epsilon)})


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """Half the squared error, from `delta` on growing no faster than the error."""
    return _loss(Layer("huber_loss"), "huber_loss", {"X": input, "Y": label}, "Out", {"delta": float(delta)})


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """For each row the sum of absolute errors, which are squared where they are below 1 / sigma^2.

    `inside_weight` scales the errors, `outside_weight` what becomes of them.
    """
    inputs = {"X": x, "Y": y}
    if inside_weight is not None:
        inputs["InsideWeight"] = inside_weight
    if outside_weight is not None:
        inputs["OutsideWeight"] = outside_weight
    attrs = {"sigma": 1.0 if sigma is None else float(sigma)}
    return _loss(Layer("smooth_l1_loss"), "smooth_l1_loss", inputs, "Out", attrs)


def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = None) -> Variable:
    """RankNet's: the cross entropy of "left is before right" with the chance sigmoid(left - right)."""
    return _loss(Layer("rank_loss", name), "rank_loss", {"Label": label, "Left": left, "Right": right})


def margin_rank_loss(
    label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None
) -> Variable:
    """How much `label` (1 or -1) times (left - right) falls short of `margin`."""
    inputs = {"Label": label, "X1": left, "X2": right}
    return _loss(Layer("margin_rank_loss", name), "margin_rank_loss", inputs, "Out", {"margin": float(margin)})


def hinge_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """How much a score falls short of 1 on the side of its label, which is 0 or 1."""
    return _loss(Layer("hinge_loss", name), "hinge_loss", {"Logits": input, "Labels": label}, "Loss")


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """Bayesian personalised ranking: the mean of -log(sigmoid(score of the label - score of each other item))."""
    return _loss(Layer("bpr_loss", name), "bpr_loss", {"X": input, "Label": label}, "Y")


def kldiv_loss(x: Variable, target: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """The Kullback-Leibler divergence of `target` from exp(x); reduction none, mean, sum or batchmean."""
    inputs = {"X": x, "Target": target}
    return _loss(Layer("kldiv_loss", name), "kldiv_loss", inputs, "Loss", {"reduction": reduction})


def cos_sim(X: Variable, Y: Variable) -> Variable:  # noqa: N803 - the reference's names
    """The cosine between each row of X and that of Y, or the only one of Y; shape [rows, 1]."""
    return _loss(Layer("cos_sim"), "cos_sim", {"X": X, "Y": Y})
