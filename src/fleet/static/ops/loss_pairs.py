"""Losses of numbers and of pairs: how far apart, which is larger, how alike. Most gradients are autograd's."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fleet.static.dtypes import FLOATS, INTEGERS
from fleet.static.executor.lowering import Lowering
from fleet.static.operator import Operator
from fleet.static.ops.making import always, compared, same_dtype, same_shape
from fleet.static.registry import Calls, Grad, Infer, Kernel, MakeKernel, may_equal, register, register_grad


def _infer_alike(infer: Infer) -> None:
    """A loss shaped as its inputs, which are all alike."""
    first, *others = infer.op.inputs
    infer.require_dtype(first, FLOATS)
    for other in others:
        same_shape(infer, first, other)
        same_dtype(infer, first, other)
    infer.like(next(iter(infer.op.outputs)), first)


def _of_alike(kernel: Kernel) -> MakeKernel:
    """A kernel whatever the attributes are, for inputs that are all alike."""
    return lambda op, lowering: compared(kernel, op, lowering)


def _infer_log_loss(infer: Infer) -> None:
    if not infer.attr("epsilon") > 0:
        raise infer.fail(f"epsilon must be > 0, got {infer.attr('epsilon')}")
    _infer_alike(infer)


@register(
    "log_loss",
    inputs=("Predicted", "Labels"),
    outputs=("Loss",),
    attrs={"epsilon": 1e-4},
    infer=_infer_log_loss,
    grad=Grad(needs=("Predicted", "Labels"), wrt=("Predicted",)),
    calls=Calls(
        "-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), for probabilities.",
        "log_loss(input, label, epsilon=0.0001, name)",
    ),
)
def _log_loss(op: Operator, lowering: Lowering) -> Kernel:
    epsilon = op.attr("epsilon")

    def loss(p: torch.Tensor, label: torch.Tensor) -> Any:
        return -label * (p + epsilon).log() - (1 - label) * (1 - p + epsilon).log()

    return compared(loss, op, lowering)


@register_grad("log_loss")
def _log_loss_grad(op: Operator, lowering: Lowering) -> Kernel:
    epsilon = op.attr("epsilon")

    def slope(p: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> Any:
        return grad * ((1 - label) / (1 - p + epsilon) - label / (p + epsilon))

    return compared(slope, op, lowering)


def _infer_delta(infer: Infer) -> None:
    if not infer.attr("delta") > 0:
        raise infer.fail(f"delta must be > 0, got {infer.attr('delta')}")
    _infer_alike(infer)


@register(
    "huber_loss",
    inputs=("X", "Y"),
    attrs={"delta": 1.0},
    infer=_infer_delta,
    grad=Grad(needs=("X", "Y"), wrt=("X", "Y")),
    calls=Calls(
        "Half the squared error, from `delta` on growing no faster than the error.", "huber_loss(input, label, delta)"
    ),
)
def _huber_loss(op: Operator, lowering: Lowering) -> Kernel:
    delta = op.attr("delta")
    return compared(lambda x, y: functional.huber_loss(x, y, reduction="none", delta=delta), op, lowering)


def _infer_smooth_l1(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    for other in ("Y", "InsideWeight", "OutsideWeight"):
        if infer.has(other):
            same_shape(infer, "X", other)
            same_dtype(infer, "X", other)
    if not infer.attr("sigma") > 0:
        raise infer.fail(f"sigma must be > 0, got {infer.attr('sigma')}")
    infer.set("Out", [infer.shape("X")[0], 1], infer.dtype("X"), lod=infer.var("X").lod)


@register(
    "smooth_l1_loss",
    inputs=("X", "Y", "InsideWeight?", "OutsideWeight?"),
    attrs={"sigma": 1.0},
    infer=_infer_smooth_l1,
    grad=Grad(needs=("X", "Y", "InsideWeight", "OutsideWeight"), wrt=("X", "Y")),
    calls=Calls(
        """For each row the sum of absolute errors, which are squared where they are below 1 / sigma^2.

    `inside_weight` scales the errors, `outside_weight` what becomes of them.
    """,
        "smooth_l1(x, y, inside_weight=None, outside_weight=None, sigma=None)",
    ),
)
def _smooth_l1_loss(op: Operator, lowering: Lowering) -> Kernel:
    beta = 1.0 / op.attr("sigma") ** 2
    has_inside, has_outside = bool(op.input("InsideWeight")), bool(op.input("OutsideWeight"))

    def loss(x: torch.Tensor, y: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        if has_inside:
            x, y = x * weights[0], y * weights[0]
        each = functional.smooth_l1_loss(x, y, reduction="none", beta=beta)
        if has_outside:
            each = each * weights[-1]
        return each.flatten(1).sum(1, keepdim=True)

    return compared(loss, op, lowering)


register(
    "rank_loss",
    inputs=("Label", "Left", "Right"),
    infer=_infer_alike,
    grad=Grad(needs=("Label", "Left", "Right"), wrt=("Left", "Right")),
    calls=Calls(
        "RankNet's: the cross entropy of `left is before right` with the probability sigmoid(left - right).",
        "rank_loss(label, left, right, name)",
    ),
)(_of_alike(lambda label, left, right: functional.softplus(left - right) - label * (left - right)))


@register(
    "margin_rank_loss",
    inputs=("Label", "X1", "X2"),
    attrs={"margin": 0.1},
    infer=_infer_alike,
    grad=Grad(needs=("Label", "X1", "X2"), wrt=("X1", "X2")),
    calls=Calls(
        "How much `label` (1 or -1) times (left - right) falls short of `margin`.",
        "margin_rank_loss(label, left, right, margin=0.1, name)",
    ),
)
def _margin_rank_loss(op: Operator, lowering: Lowering) -> Kernel:
    margin = op.attr("margin")
    return compared(lambda label, left, right: torch.relu(margin - label * (left - right)), op, lowering)


register(
    "hinge_loss",
    inputs=("Logits", "Labels"),
    outputs=("Loss",),
    infer=_infer_alike,
    grad=Grad(needs=("Logits", "Labels"), wrt=("Logits",)),
    calls=Calls(
        "How much a score falls short of 1 on the side of its label, which is 0 or 1.",
        "hinge_loss(input, label, name)",
    ),
)(_of_alike(lambda logits, labels: torch.relu(1 - (2 * labels - 1) * logits)))


def _infer_bpr(infer: Infer) -> None:
    x, label = infer.var("X"), infer.var("Label")
    infer.require_rank("X", 2)
    infer.require_dtype("X", FLOATS)
    infer.require_dtype("Label", INTEGERS)
    if not may_equal(label.shape, (x.shape[0], 1)):
        raise infer.fail(f"Label {label.name!r} must have shape {[x.shape[0], 1]}, got {list(label.shape)}")
    if 0 <= x.shape[1] < 2:
        raise infer.fail(f"X {x.name!r} must have two items or more, got shape {list(x.shape)}")
    infer.set("Y", [x.shape[0], 1], x.dtype, lod=x.lod)


def _bpr(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The mean over all other items of -log(sigmoid(score of the label - score of the item))."""
    lead = x.gather(1, label.long()) - x
    is_other = torch.ones_like(x).scatter_(1, label.long(), 0)
    return -(functional.logsigmoid(lead) * is_other).sum(1, keepdim=True) / (x.shape[1] - 1)


register(
    "bpr_loss",
    inputs=("X", "Label"),
    outputs=("Y",),
    infer=_infer_bpr,
    grad=Grad(needs=("X", "Label"), wrt=("X",)),
    calls=Calls(
        "Bayesian personalised ranking: the mean of -log(sigmoid(score of the label - score of each other item)).",
        "bpr_loss(input, label, name)",
    ),
)(lambda op, lowering: compared(_bpr, op, lowering, num_dims=1))


def _infer_kldiv(infer: Infer) -> None:
    if infer.attr("reduction") not in ("none", "mean", "sum", "batchmean"):
        raise infer.fail(f"reduction must be none, mean, sum or batchmean, got {infer.attr('reduction')!r}")
    _infer_alike(infer)
    if infer.attr("reduction") != "none":
        infer.set("Loss", [1], infer.dtype("X"))


@register(
    "kldiv_loss",
    inputs=("X", "Target"),
    outputs=("Loss",),
    attrs={"reduction": "mean"},
    infer=_infer_kldiv,
    grad=Grad(needs=("X", "Target"), wrt=("X",)),
    calls=Calls(
        "The Kullback-Leibler divergence of `target` from exp(x); reduction none, mean, sum or batchmean.",
        "kldiv_loss(x, target, reduction='mean', name)",
    ),
)
def _kldiv_loss(op: Operator, lowering: Lowering) -> Kernel:
    reduction = op.attr("reduction")

    def divergence(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        each = functional.kl_div(x, target, reduction="none")
        if reduction == "none":
            return each
        if reduction == "mean":
            return each.mean().view(1)
        return each.sum().view(1) if reduction == "sum" else each.sum().view(1) / len(x)

    return compared(divergence, op, lowering)


def _infer_cos_sim(infer: Infer) -> None:
    x, y = infer.var("X"), infer.var("Y")
    infer.require_dtype("X", FLOATS)
    same_dtype(infer, "X", "Y")
    if len(x.shape) < 2 or not may_equal(x.shape[1:], y.shape[1:]) or y.shape[0] not in (1, -1, x.shape[0]):
        raise infer.fail(
            f"Y {y.name!r} must have the shape {list(x.shape)} of X {x.name!r}, or one row of it, got {list(y.shape)}"
        )
    infer.set("Out", [x.shape[0], 1], x.dtype, lod=x.lod)


register(
    "cos_sim",
    inputs=("X", "Y"),
    infer=_infer_cos_sim,
    grad=Grad(needs=("X", "Y"), wrt=("X", "Y")),
    calls=Calls(
        "The cosine between each row of X and that of Y, or the only one of Y; shape [rows, 1].", "cos_sim(X, Y)"
    ),
)(always(lambda x, y: functional.cosine_similarity(x.flatten(1), y.flatten(1)).unsqueeze(1)))
