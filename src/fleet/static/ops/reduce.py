"""Operators that make fewer numbers of many: mean, reduce_sum, reduce_max, ... A result without dimensions is [1]."""

from __future__ import annotations

import torch

from fleet.static.dtypes import FLOATS, INTEGERS
from fleet.static.executor.lowering import Lowering
from fleet.static.kinds import Shape
from fleet.static.operator import Operator
from fleet.static.ops.making import axis_of
from fleet.static.registry import Grad, Infer, Kernel, register, register_grad


def _infer_mean(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.set("Out", [1], infer.dtype("X"))


@register("mean", inputs=("X",), infer=_infer_mean, grad=Grad(needs=("X",)))
def _mean(op: Operator, lowering: Lowering) -> Kernel:
    shape = lowering.shape(op.input("X")[0])
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        keep = len(shape) == 1
        return lambda x: x.mean(0, keepdim=keep)
    return lambda x: x.mean().view(1)


@register_grad("mean")
def _mean_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x, grad: (grad / x.numel()).expand(x.shape)


def dims_of(op: Operator, rank: int) -> list[int]:
    """The dimensions that a reduction goes over, counted from 0 and ascending."""
    dim = op.attr("dim")
    if op.attr("reduce_all") or not dim:
        return list(range(rank))
    return sorted({one % rank for one in dim})


def _infer_reduce(infer: Infer) -> None:
    x = infer.var("X")
    for one in infer.attr("dim"):
        axis_of(infer, one, len(x.shape), "dim")
    if infer.op.type in ("reduce_all", "reduce_any"):
        infer.require_dtype("X", frozenset({"bool"}))
    elif infer.op.type == "reduce_mean":
        infer.require_dtype("X", FLOATS)
    else:
        infer.require_dtype("X", FLOATS | INTEGERS)
    dims = dims_of(infer.op, len(x.shape))
    if infer.attr("keep_dim"):
        shape = [1 if i in dims else size for i, size in enumerate(x.shape)]
    else:
        shape = [size for i, size in enumerate(x.shape) if i not in dims]
    infer.set("Out", shape or [1], x.dtype, lod=x.lod if 0 not in dims else None)


_ATTRS = {"dim": [], "keep_dim": False, "reduce_all": False}


class _Reduction:
    """How one operator reduces; its gradient is spread over the dimensions that went."""

    def __init__(self, op: Operator, shape: Shape) -> None:
        self.dims = dims_of(op, len(shape))
        self.keep = bool(op.attr("keep_dim"))
        self.is_whole = len(self.dims) == len(shape) and not self.keep

    def reduced(self, function: Kernel) -> Kernel:
        """A kernel from a function of (x, dims, keepdim)."""
        dims, keep = self.dims, self.keep
        if self.is_whole:
            return lambda x: function(x, dims, False).view(1)
        return lambda x: function(x, dims, keep)

    def back(self, value: torch.Tensor, rank: int) -> torch.Tensor:
        """A reduced value with its dimensions again, each of size 1."""
        if self.is_whole:
            return value.view((1,) * rank)
        if self.keep:
            return value
        for dim in self.dims:
            value = value.unsqueeze(dim)
        return value


def _product(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    for dim in reversed(dims):
        x = x.prod(dim, keepdim=keepdim, dtype=x.dtype)
    return x


def _total(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    return torch.sum(x, dims, keepdim=keepdim, dtype=x.dtype)


_FUNCTIONS: dict[str, tuple[Kernel, Grad | None]] = {
    "reduce_sum": (_total, Grad(needs=("X",))),
    "reduce_mean": (torch.mean, Grad(needs=("X",))),
    "reduce_max": (torch.amax, Grad(needs=("X", "Out"))),
    "reduce_min": (torch.amin, Grad(needs=("X", "Out"))),
    "reduce_prod": (_product, Grad(needs=("X",))),
    "reduce_all": (torch.all, None),
    "reduce_any": (torch.any, None),
}


def _define(type: str, function: Kernel, grad: Grad | None) -> None:
    @register(type, inputs=("X",), attrs=_ATTRS, infer=_infer_reduce, grad=grad)
    def _(op: Operator, lowering: Lowering) -> Kernel:
        return _Reduction(op, lowering.shape(op.input("X")[0])).reduced(function)


for _type, (_function, _grad) in _FUNCTIONS.items():
    _define(_type, _function, _grad)


def _infer_norm(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    _infer_reduce(infer)


@register("p_norm", inputs=("X",), attrs={"porder": 2.0, **_ATTRS}, infer=_infer_norm, grad=Grad(needs=("X",)))
def _p_norm(op: Operator, lowering: Lowering) -> Kernel:
    """Its gradient is torch's, and so 0 at vectors of zeros, where a square root has none."""
    order = op.attr("porder")
    reduction = _Reduction(op, lowering.shape(op.input("X")[0]))
    return reduction.reduced(lambda x, dims, keepdim: torch.linalg.vector_norm(x, order, dims, keepdim))


@register_grad("reduce_sum")
def _reduce_sum_grad(op: Operator, lowering: Lowering) -> Kernel:
    reduction = _Reduction(op, lowering.shape(op.input("X")[0]))
    return lambda x, grad: reduction.back(grad, x.dim()).expand(x.shape)


@register_grad("reduce_mean")
def _reduce_mean_grad(op: Operator, lowering: Lowering) -> Kernel:
    reduction = _Reduction(op, lowering.shape(op.input("X")[0]))

    def spread(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return (reduction.back(grad, x.dim()) * (grad.numel() / x.numel())).expand(x.shape)

    return spread


def _extreme_grad(op: Operator, lowering: Lowering) -> Kernel:
    """The largest (or smallest) elements share the gradient."""
    reduction = _Reduction(op, lowering.shape(op.input("X")[0]))

    def share(x: torch.Tensor, out: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        chosen = x == reduction.back(out, x.dim())
        return chosen * (reduction.back(grad, x.dim()) / chosen.sum(reduction.dims, keepdim=True))

    return share


register_grad("reduce_max")(_extreme_grad)
register_grad("reduce_min")(_extreme_grad)


@register_grad("reduce_prod")
def _reduce_prod_grad(op: Operator, lowering: Lowering) -> Kernel:
    """Each element's gradient is the product of the others, taken from both ends: right even if some are 0."""
    rank = len(lowering.shape(op.input("X")[0]))
    reduction = _Reduction(op, lowering.shape(op.input("X")[0]))
    kept = [dim for dim in range(rank) if dim not in reduction.dims]
    order = kept + reduction.dims
    back = [order.index(dim) for dim in range(rank)]

    def others(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        moved = x.permute(order)
        flat = moved.flatten(len(kept))
        one = torch.ones_like(flat[..., :1])
        before = torch.cat([one, flat[..., :-1]], -1).cumprod(-1)
        after = torch.cat([one, flat[..., 1:].flip(-1)], -1).cumprod(-1).flip(-1)
        return (before * after).view(moved.shape).permute(back) * reduction.back(grad, x.dim())

    return others
