"""Losses of probabilities: `nll_loss` of log-probabilities, `bce_loss` of one probability for each element."""

from __future__ import annotations

from torch.nn import functional

from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared, same_dtype, same_shape
from fleet_programs.operators.networks.loss import IGNORE


def _infer_nll(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_dtype("Label", INTEGERS)
    x, label = infer.var("X"), infer.var("Label")
    wanted = (x.shape[0], *x.shape[2:])
    if x.ndim < 2 or not may_equal(label.shape, wanted):
        raise infer.fail(
            f"Label {label.name!r} must have shape {list(wanted)} for X {x.name!r} of shape {list(x.shape)}, got "
            f"{list(label.shape)}"
        )
    infer.set("Out", label.shape, x.dtype)


@register(
    "nll_loss",
    inputs=("X", "Label"),
    attrs={"ignore_index": IGNORE},
    infer=_infer_nll,
    grad=Grad(needs=("X", "Label"), wrt=("X",)),
)
def _nll(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    ignore = op.attr("ignore_index")
    return lambda x, label: functional.nll_loss(x, label.long(), ignore_index=ignore, reduction="none")


def _infer_bce(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    same_dtype(infer, "X", "Label")
    same_shape(infer, "X", "Label")
    infer.like("Out", "X")


@register("bce_loss", inputs=("X", "Label"), infer=_infer_bce, grad=Grad(needs=("X", "Label"), wrt=("X",)))
def _bce(op: Operator, lowering: Lowering) -> Kernel:
    return compared(lambda x, label: functional.binary_cross_entropy(x, label, reduction="none"), op, lowering)
