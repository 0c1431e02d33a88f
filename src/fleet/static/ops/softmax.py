"""Softmax and its logarithm, along one dimension."""

from __future__ import annotations

import torch

from fleet.static.dtypes import FLOATS, torch_dtype
from fleet.static.executor.lowering import Lowering
from fleet.static.operator import Operator
from fleet.static.registry import Grad, Infer, Kernel, register, register_grad

_aten = torch.ops.aten


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    rank, axis = infer.var("X").ndim, infer.attr("axis")
    if not -rank <= axis < rank:
        raise infer.fail(f"axis must be from {-rank} to {rank - 1} for X of shape {list(infer.shape('X'))}, got {axis}")
    infer.like("Out", "X")


for _type in ("softmax", "log_softmax"):
    _forward = getattr(torch, _type)
    _backward = getattr(_aten, f"_{_type}_backward_data")

    @register(_type, inputs=("X",), attrs={"axis": -1}, infer=_infer, grad=Grad(needs=("Out",)))
    def _(op: Operator, lowering: Lowering, forward: Kernel = _forward) -> Kernel:  # noqa: ARG001
        axis = op.attr("axis")
        return lambda x: forward(x, axis)

    @register_grad(_type, as_autograd=True)
    def _(op: Operator, lowering: Lowering, backward: Kernel = _backward) -> Kernel:
        axis, dtype = op.attr("axis"), torch_dtype(lowering.dtype(op.input("Out")[0]))
        return lambda out, grad: backward(grad, out, axis, dtype)
