"""Softmax and its logarithm, along one dimension."""

from __future__ import annotations

import torch

from fleet_programs.definition.dtypes import FLOATS, canonical, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of

_aten = torch.ops.aten


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    axis_of(infer, infer.attr("axis"), infer.var("X").ndim)
    infer.like("Out", "X")


def _on_tensors(function: Kernel) -> Kernel:
    """The function of 2.0, which may be told to compute in another type."""
    return lambda x, axis, dtype: function(x, axis, dtype=None if dtype is None else torch_dtype(canonical(dtype)))


_CALLS = {
    "softmax": Calls(
        "exp(x) divided by its sum along `axis`.",
        "softmax(input, use_cudnn=False, name, axis=-1)",
        "F.softmax(x, axis=-1, dtype=None, name)",
        _on_tensors(torch.softmax),
        "Softmax",
    ),
    "log_softmax": Calls(
        "The logarithm of the softmax along `axis`.",
        "log_softmax(input, axis=-1, name)",
        "F.log_softmax(x, axis=-1, dtype=None, name)",
        _on_tensors(torch.log_softmax),
        "LogSoftmax",
    ),
}

for _type in ("softmax", "log_softmax"):
    _forward = getattr(torch, _type)
    _backward = getattr(_aten, f"_{_type}_backward_data")

    @register(_type, inputs=("X",), attrs={"axis": -1}, infer=_infer, grad=Grad(needs=("Out",)), calls=_CALLS[_type])
    def _(op: Operator, lowering: Lowering, forward: Kernel = _forward) -> Kernel:  # noqa: ARG001
        axis = op.attr("axis")
        return lambda x: forward(x, axis)

    @register_grad(_type, as_autograd=True)
    def _(op: Operator, lowering: Lowering, backward: Kernel = _backward) -> Kernel:
        axis, dtype = op.attr("axis"), torch_dtype(lowering.dtype(op.input("Out")[0]))
        return lambda out, grad: backward(grad, out, axis, dtype)
