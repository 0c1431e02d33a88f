"""Losses of numbers and of pairs: how far apart, which is larger, how alike. Most gradients are autograd's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, may_equal, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared, computes, positive, same_dtype, same_shape


def _infer_alike(infer: Infer) -> None:
    """A loss shaped as its inputs, which are all alike."""
    first, *others = infer.op.inputs
    infer.require_dtype(first, FLOATS)
    for other in others:
        same_shape(infer, first, other)
        same_dtype(infer, first, other)
    infer.like(next(iter(infer.op.outputs)), first)


def _loss(
    type: str,
    call: str,
    inputs: tuple[str, ...],
    wrt: tuple[str, ...],
    attrs: Mapping[str, Any] | None = None,
    *,
    infer: Callable[[Infer], None] = _infer_alike,
    out: str = "Out",
    **more: Any,
) -> Callable[[Kernel], Kernel]:
    """`computes` of a loss that refuses batches of other shapes, and whose gradient reads all that it does."""
    settings: dict[str, Any] = {"inputs": inputs, "outputs": (out,), "grad": Grad(needs=inputs, wrt=wrt)}
    return computes(type, infer, call, attrs=attrs, **settings | {"around": compared} | more)


_ONE, _BOTH = ("X",), ("X", "Y")


def _above_0(name: str) -> Callable[[Infer], None]:
    def infer_above_0(infer: Infer) -> None:
        positive(infer, name)
        _infer_alike(infer)

    return infer_above_0


@_loss(
    "log_loss",
    "log_loss(input, label, epsilon=0.0001, name)",
    ("Predicted", "Labels"),
    ("Predicted",),
    {"epsilon": 1e-4},
    infer=_above_0("epsilon"),
    out="Loss",
)
def _log_loss(p: torch.Tensor, label: torch.Tensor, epsilon: float) -> Any:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), for probabilities."""
    return -label * (p + epsilon).log() - (1 - label) * (1 - p + epsilon).log()


@register_grad("log_loss")
def _log_loss_grad(op: Operator, lowering: Lowering) -> Kernel:
    epsilon = op.attr("epsilon")

    def slope(p: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> Any:
        return grad * ((1 - label) / (1 - p + epsilon) - label / (p + epsilon))

    return compared(slope, op, lowering)


@_loss("huber_loss", "huber_loss(input, label, delta)", _BOTH, _BOTH, {"delta": 1.0}, infer=_above_0("delta"))
def _huber_loss(x: torch.Tensor, y: torch.Tensor, delta: float) -> torch.Tensor:
    """Half the squared error, from `delta` on growing no faster than the error."""
    return functional.huber_loss(x, y, reduction="none", delta=delta)


def _infer_smooth_l1(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    for other in ("Y", "InsideWeight", "OutsideWeight"):
        if infer.has(other):
            same_shape(infer, "X", other)
            same_dtype(infer, "X", other)
    positive(infer, "sigma")
    infer.set("Out", [infer.shape("X")[0], 1], infer.dtype("X"), lod=infer.var("X").lod)


@register(
    "smooth_l1_loss",
    inputs=("X", "Y", "InsideWeight?", "OutsideWeight?"),
    attrs={"sigma": 1.0},
    infer=_infer_smooth_l1,
    grad=Grad(needs=("X", "Y", "InsideWeight", "OutsideWeight"), wrt=("X", "Y")),
    calls=Calls(v1="smooth_l1(x, y, inside_weight=None, outside_weight=None, sigma=None)"),
)
def _smooth_l1_loss(op: Operator, lowering: Lowering) -> Kernel:
    """For each row the sum of absolute errors, which are squared where they are below 1 / sigma^2.

    `inside_weight` scales the errors, `outside_weight` what becomes of them.
    """
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


@_loss("rank_loss", "rank_loss(label, left, right, name)", ("Label", "Left", "Right"), ("Left", "Right"))
def _rank_loss(label: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """RankNet's: the cross entropy of `left is before right` with the probability sigmoid(left - right)."""
    return functional.softplus(left - right) - label * (left - right)


_MARGIN = "margin_rank_loss(label, left, right, margin=0.1, name)"


@_loss("margin_rank_loss", _MARGIN, ("Label", "X1", "X2"), ("X1", "X2"), {"margin": 0.1})
def _margin_rank_loss(label: torch.Tensor, left: torch.Tensor, right: torch.Tensor, margin: float) -> torch.Tensor:
    """How much `label` (1 or -1) times (left - right) falls short of `margin`."""
    return torch.relu(margin - label * (left - right))


@_loss("hinge_loss", "hinge_loss(input, label, name)", ("Logits", "Labels"), ("Logits",), out="Loss")
def _hinge_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How much a score falls short of 1 on the side of its label, which is 0 or 1."""
    return torch.relu(1 - (2 * labels - 1) * logits)


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


_BY_ROWS = partial(compared, num_dims=1)


@_loss("bpr_loss", "bpr_loss(input, label, name)", ("X", "Label"), _ONE, infer=_infer_bpr, out="Y", around=_BY_ROWS)
def _bpr(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Bayesian personalised ranking: the mean of -log(sigmoid(score of the label - score of each other item))."""
    lead = x.gather(1, label.long()) - x
    is_other = torch.ones_like(x).scatter_(1, label.long(), 0)
    return -(functional.logsigmoid(lead) * is_other).sum(1, keepdim=True) / (x.shape[1] - 1)


def _infer_kldiv(infer: Infer) -> None:
    if infer.attr("reduction") not in ("none", "mean", "sum", "batchmean"):
        raise infer.fail(f"reduction must be none, mean, sum or batchmean, got {infer.attr('reduction')!r}")
    _infer_alike(infer)
    if infer.attr("reduction") != "none":
        infer.set("Loss", [1], infer.dtype("X"))


_KLDIV = "kldiv_loss(x, target, reduction='mean', name)"


@_loss("kldiv_loss", _KLDIV, ("X", "Target"), _ONE, {"reduction": "mean"}, infer=_infer_kldiv, out="Loss")
def _kldiv_loss(x: torch.Tensor, target: torch.Tensor, reduction: str) -> torch.Tensor:
    """The Kullback-Leibler divergence of `target` from exp(x); reduction none, mean, sum or batchmean."""
    each = functional.kl_div(x, target, reduction="none")
    if reduction == "none":
        return each
    if reduction == "mean":
        return each.mean().view(1)
    return each.sum().view(1) if reduction == "sum" else each.sum().view(1) / len(x)


def _infer_cos_sim(infer: Infer) -> None:
    x, y = infer.var("X"), infer.var("Y")
    infer.require_dtype("X", FLOATS)
    same_dtype(infer, "X", "Y")
    if len(x.shape) < 2 or not may_equal(x.shape[1:], y.shape[1:]) or y.shape[0] not in (1, -1, x.shape[0]):
        raise infer.fail(
            f"Y {y.name!r} must have the shape {list(x.shape)} of X {x.name!r}, or one row of it, got {list(y.shape)}"
        )
    infer.set("Out", [x.shape[0], 1], x.dtype, lod=x.lod)


@_loss("cos_sim", "cos_sim(X, Y)", _BOTH, _BOTH, infer=_infer_cos_sim, around=None)
def _cos_sim(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The cosine between each row of X and that of Y, or the only one of Y; shape [rows, 1]."""
    return functional.cosine_similarity(x.flatten(1), y.flatten(1)).unsqueeze(1)
