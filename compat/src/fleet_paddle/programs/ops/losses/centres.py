"""`center_loss`: how far each example is from the centre of its class; training moves the centres towards them."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_dtype("Label", INTEGERS)
    infer.require_rank("X", 2)
    x, centres = infer.var("X"), infer.shape("Centers")
    if centres[1] != x.shape[1]:
        raise infer.fail(f"Centers must be [classes, {x.shape[1]}], got {list(centres)}")
    infer.like("SampleCenterDiff", "X")
    infer.set("Loss", (x.shape[0], 1), x.dtype)


@register(
    "center_loss",
    inputs=("X", "Label", "Centers", "CenterUpdateRate"),
    outputs=("SampleCenterDiff", "Loss", "CentersOut?"),
    attrs={"need_update": True, "is_test": False},
    infer=_infer,
    grad=Grad(needs=("SampleCenterDiff",), outs=("Loss",)),
)
def _center_loss(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    moves = bool(op.output("CentersOut")) and op.attr("need_update") and not op.attr("is_test")

    def loss(x: T, label: T, centres: T, rate: T) -> Any:
        own = label.reshape(-1).long()
        away = x - centres.index_select(0, own)
        if moves:
            count = centres.new_ones(len(centres)).index_add_(0, own, centres.new_ones(len(own)))
            total = torch.zeros_like(centres).index_add_(0, own, away)
            centres.add_(rate * total / count.unsqueeze(1))
        return away, away.square().sum(1, True) / 2

    return loss


@register_grad("center_loss")
def _center_loss_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda away, grad: away * grad
