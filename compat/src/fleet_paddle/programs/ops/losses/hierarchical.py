"""`hierarchical_sigmoid`: a class is a leaf of a binary tree, its loss that of the choices on the way there."""

from __future__ import annotations

import torch
from torch.nn import functional

from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared

_LIMIT = 40.0
"""Logits are kept between -40 and 40."""


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_dtype("Label", INTEGERS)
    infer.require_rank("X", 2)
    x, classes = infer.var("X"), infer.attr("num_classes")
    if infer.has("PathTable") != infer.has("PathCode"):
        raise infer.fail("PathTable and PathCode must both be given, or none of them")
    if not infer.has("PathTable") and classes < 2:
        raise infer.fail(f"num_classes must be >= 2, got {classes}")
    weight = infer.shape("W")
    if len(weight) != 2 or weight[1] != x.shape[1] or (infer.has("Bias") and infer.shape("Bias") != (weight[0], 1)):
        raise infer.fail(f"W must be [nodes, {x.shape[1]}] and Bias [nodes, 1], got W {list(weight)}")
    infer.set("Out", (x.shape[0], 1), x.dtype)


@register(
    "hierarchical_sigmoid",
    inputs=("X", "Label", "W", "Bias?", "PathTable?", "PathCode?"),
    attrs={"num_classes": 2},
    infer=_infer,
    grad=Grad(needs=("X", "Label", "W", "Bias", "PathTable", "PathCode"), wrt=("X", "W", "Bias")),
)
def _hierarchical_sigmoid(op: Operator, lowering: Lowering) -> Kernel:
    """Without a tree of its own it is a complete one: the bits of `label + num_classes` are the way from its root."""
    classes, has_bias = op.attr("num_classes"), bool(op.input("Bias"))
    bits = torch.arange((2 * classes - 1).bit_length() - 1, device=lowering.device)

    def loss(x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        if len(more) >= 2:
            nodes, codes = more[-2].long(), more[-1]
        else:
            code = label.reshape(-1, 1).long() + classes
            code = torch.where(code < classes, 2 * classes, code)  # no such leaf: looking its nodes up is refused
            nodes, codes = (code >> (bits + 1)) - 1, (code >> bits) & 1
        inside = nodes >= 0
        nodes = nodes.clamp(min=0)
        logits = torch.einsum("nd,nld->nl", x, weight[nodes])
        if has_bias:
            logits = logits + more[0].view(-1)[nodes]
        logits = logits.clamp(-_LIMIT, _LIMIT)
        costs = functional.softplus(logits, threshold=2 * _LIMIT) - codes.to(x.dtype) * logits
        return costs.masked_fill(~inside, 0).sum(1, keepdim=True)

    return compared(loss, op, lowering, "X", "Label", num_dims=1)
