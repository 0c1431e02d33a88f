"""Losses over classes: cross entropy of probabilities, of logits, and of yes-or-no logits."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import FLOATS, INTEGERS, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, may_equal, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of, compared, computes, same_dtype, same_shape

IGNORE = -100
_NO_REDUCTION = 0
FEW_CLASSES = 64
"""Up to so many classes the logarithm of all of them costs less than picking those of the labels first."""


def _check_label(infer: Infer, slot: str, axis: int) -> None:
    """A label is a class for each row, or with soft_label a weight for each class."""
    x, label = infer.var(slot), infer.var("Label")
    if infer.attr("soft_label"):
        same_shape(infer, slot, "Label")
        same_dtype(infer, slot, "Label")
        return
    if label.dtype not in INTEGERS:
        raise infer.fail(
            f"Label {label.name!r} must be int64, got {label.dtype}; with soft_label=True it is a distribution"
        )
    wanted = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if not may_equal(label.shape, wanted):
        raise infer.fail(
            f"Label {label.name!r} must have shape {list(wanted)} for {slot} {x.name!r} of shape {list(x.shape)}, "
            f"got {list(label.shape)}"
        )


def _infer_cross_entropy(infer: Infer) -> None:
    x = infer.var("X")
    infer.require_dtype("X", FLOATS)
    if len(x.shape) < 2:
        raise infer.fail(f"X {x.name!r} must have rows and classes, got shape {list(x.shape)}")
    _check_label(infer, "X", len(x.shape) - 1)
    infer.set("Y", (*x.shape[:-1], 1), x.dtype, lod=x.lod)


@register(
    "cross_entropy",
    inputs=("X", "Label"),
    outputs=("Y",),
    attrs={"soft_label": False, "ignore_index": IGNORE},
    infer=_infer_cross_entropy,
    grad=Grad(needs=("X", "Label"), wrt=("X",)),
    calls=Calls(v1=f"cross_entropy(input, label, soft_label=False, ignore_index={IGNORE})"),
)
def _cross_entropy(op: Operator, lowering: Lowering) -> Kernel:
    """-log of the probability that `input` gives to each row's label; 0 for rows labelled `ignore_index`.

    `input` are probabilities, as softmax gives them. With `soft_label` the label is a distribution over the classes.
    """
    most = bound(lowering.dtype(op.input("X")[0]))
    if op.attr("soft_label"):
        return compared(lambda x, label: (label * x.log().clamp_min_(-most)).sum(-1, keepdim=True).neg_(), op, lowering)
    shape, ignore = lowering.shape(op.input("X")[0]), op.attr("ignore_index")

    def few(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return _picked(x.log(), label.reshape(-1).long(), ignore).clamp_max_(most).unsqueeze(1)

    def entropy(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        ignored = label == ignore
        picked = x.gather(-1, label.long().masked_fill(ignored, 0))
        return picked.log_().neg_().clamp_max_(most).masked_fill_(ignored, 0)

    if len(shape) == 2 and 0 < shape[1] <= FEW_CLASSES:
        return with_classes(few, op)
    return compared(with_classes(entropy, op), op, lowering, num_dims=len(shape) - 1)


@register_grad("cross_entropy")
def _cross_entropy_grad(op: Operator, lowering: Lowering) -> Kernel:
    least = 1 / bound(lowering.dtype(op.input("X")[0]))
    if op.attr("soft_label"):
        return compared(lambda x, label, grad: (label / x.clamp_min(least)).mul_(-grad), op, lowering, "X", "Label")
    ignore = op.attr("ignore_index")

    def entropy_grad(x: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        flat, target = x.reshape(-1, x.shape[-1]), label.reshape(-1).long()
        share = grad.reshape(-1) / _picked(flat, target, ignore).neg_().clamp_min_(least)
        return _picked_grad(share, flat, target, ignore).view(x.shape)

    return with_classes(entropy_grad, op)


def bound(dtype: str) -> float:
    """What the logarithm of a probability is at most below zero, and its slope above: a probability may be 0."""
    return min(1e20, 1 / torch.finfo(torch_dtype(dtype)).tiny)


def with_classes(kernel: Kernel, op: Operator, slot: str = "X", axis: int = -1) -> Kernel:
    """A kernel of probabilities and labels that says which label is no class, where torch only names a number."""

    def run(x: torch.Tensor, label: torch.Tensor, *more: torch.Tensor) -> Any:
        try:
            return kernel(x, label, *more)
        except (RuntimeError, IndexError):
            num, ignore = x.shape[axis], op.attr("ignore_index")
            wrong = label[(label != ignore) & ((label < 0) | (label >= num))]
            if not len(wrong):
                raise
            raise UsageError(
                f"label {int(wrong[0])} of {op.input('Label')[0]!r} is no class of {op.input(slot)[0]!r}, whose "
                f"classes are 0 to {num - 1}; {ignore} is the label to be ignored"
            ) from None

    return run


def _picked(flat: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
    """The negative of what each row has at its label; 0 in rows that are ignored."""
    return functional.nll_loss(flat, target, reduction="none", ignore_index=ignore)


def _picked_grad(grad: torch.Tensor, flat: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
    """Zeros shaped as `flat` with the negative gradient at each row's label; nothing in rows that are ignored."""
    weight = torch.ones((), dtype=flat.dtype, device=flat.device)
    found: torch.Tensor = torch.ops.aten.nll_loss_backward(grad, flat, target, None, _NO_REDUCTION, ignore, weight)
    return found


def _infer_with_softmax(infer: Infer) -> None:
    logits = infer.var("Logits")
    infer.require_dtype("Logits", FLOATS)
    axis = axis_of(infer, infer.attr("axis"), len(logits.shape))
    _check_label(infer, "Logits", axis)
    infer.like("Softmax", "Logits")
    infer.set("Loss", (*logits.shape[:axis], 1, *logits.shape[axis + 1 :]), logits.dtype, lod=logits.lod)


@register(
    "softmax_with_cross_entropy",
    inputs=("Logits", "Label"),
    outputs=("Softmax", "Loss"),
    attrs={"soft_label": False, "ignore_index": IGNORE, "axis": -1, "numeric_stable_mode": True},
    infer=_infer_with_softmax,
    grad=Grad(needs=("Softmax", "Label"), wrt=("Logits",), outs=("Loss",)),
)
def _softmax_with_cross_entropy(op: Operator, lowering: Lowering) -> Kernel:
    axis, ignore = op.attr("axis"), op.attr("ignore_index")
    shape = lowering.shape(op.input("Logits")[0])
    is_plain = len(shape) == 2 and axis in (-1, 1)

    def soft(logits: torch.Tensor, label: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logs = logits.log_softmax(axis)
        loss = (label * logs).sum(axis, keepdim=True).neg_()
        return logs.exp_(), loss

    def plain(logits: torch.Tensor, label: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logs = logits.log_softmax(1)
        loss = _picked(logs, label.reshape(-1).long(), ignore)
        return logs.exp_(), loss.unsqueeze(1)

    def hard(logits: torch.Tensor, label: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logs = logits.log_softmax(axis)
        ignored = label == ignore
        loss = logs.gather(axis, label.long().masked_fill(ignored, 0)).neg_().masked_fill_(ignored, 0)
        return logs.exp_(), loss

    if op.attr("soft_label"):
        return compared(soft, op, lowering)
    if is_plain:
        return with_classes(plain, op, "Logits")
    return compared(with_classes(hard, op, "Logits", axis), op, lowering, num_dims=max(1, axis % len(shape)))


@register_grad("softmax_with_cross_entropy")
def _softmax_with_cross_entropy_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    axis, ignore = op.attr("axis"), op.attr("ignore_index")

    def soft(softmax: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return (softmax * label.sum(axis, keepdim=True) - label) * grad

    def hard(softmax: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        rows = softmax.movedim(axis, -1)
        flat = rows.reshape(-1, rows.shape[-1])
        own, index = grad.movedim(axis, -1).reshape(-1, 1), label.movedim(axis, -1).reshape(-1, 1).long()
        is_ignored = index == ignore
        own, index = own.masked_fill(is_ignored, 0), index.masked_fill(is_ignored, 0)
        found = flat * own  # written once: the classes of a language model take gigabytes
        found.scatter_(1, index, torch.addcmul(-own, flat.gather(1, index), own))
        return found.view(rows.shape).movedim(-1, axis)

    return soft if op.attr("soft_label") else hard


def _infer_sigmoid(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    same_shape(infer, "X", "Label")
    same_dtype(infer, "X", "Label")
    infer.like("Out", "X")


@computes(
    "sigmoid_cross_entropy_with_logits",
    _infer_sigmoid,
    f"sigmoid_cross_entropy_with_logits(x, label, ignore_index={IGNORE}, name, normalize=False)",
    attrs={"ignore_index": IGNORE, "normalize": False},
    inputs=("X", "Label"),
    grad=Grad(needs=("X", "Label")),
)
def _sigmoid_cross_entropy(x: torch.Tensor, label: torch.Tensor, ignore_index: int, normalize: bool) -> torch.Tensor:
    """The cross entropy of sigmoid(x) with a probability, by element; 0 where the label is `ignore_index`.

    With `normalize` it is divided by the number of elements that are not ignored.
    """
    loss = functional.binary_cross_entropy_with_logits(x, label, reduction="none")
    return _counted(loss, label == ignore_index, normalize)


@register_grad("sigmoid_cross_entropy_with_logits", once=True)
def _sigmoid_cross_entropy_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    ignore, normalize = op.attr("ignore_index"), op.attr("normalize")

    def entropy_grad(x: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return _counted(x.sigmoid().sub_(label).mul_(grad), label == ignore, normalize)

    return entropy_grad


def _counted(values: torch.Tensor, ignored: torch.Tensor, normalize: bool) -> torch.Tensor:
    """Values without those that are ignored, divided by the number of the others if asked for."""
    values = values.masked_fill_(ignored, 0)
    return values / (~ignored).sum().clamp_min(1) if normalize else values
