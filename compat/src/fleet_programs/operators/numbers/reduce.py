"""Operators that make fewer numbers of many: mean, reduce_sum, reduce_max, ... A result without dimensions is [1]."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageTypeError
from fleet_programs.definition.dtypes import FLOATS, INTEGERS, canonical, torch_dtype
from fleet_programs.definition.kinds import Shape
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of, integers


def _infer_mean(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.set("Out", [1], infer.dtype("X"))


@register(
    "mean",
    inputs=("X",),
    infer=_infer_mean,
    grad=Grad(needs=("X",)),
    calls=Calls("The mean of all elements.", "mean(x, name)"),
)
def _mean(op: Operator, lowering: Lowering) -> Kernel:
    shape = lowering.shape(op.input("X")[0])
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        keep = len(shape) == 1
        return lambda x: x.mean(0, keepdim=keep)
    return lambda x: x.mean().view(1)


@register_grad("mean", as_autograd=True)
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
        x = torch.prod(x, dim, keepdim=keepdim, dtype=x.dtype)
    return x


def _total(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    return torch.sum(x, dims, keepdim=keepdim, dtype=x.dtype)


def to_attrs(given: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a reduction: `dim` may be one dimension, several, or none for all."""
    dim = given.get("dim")
    dims = [] if dim is None else list(integers(dim))
    keep = given.get("keep_dim", False)
    if keep not in (True, False):
        raise UsageTypeError(f"a reduction: keep_dim must be True or False, got {keep!r}")
    return given | {"dim": dims, "keep_dim": bool(keep), "reduce_all": not dims}


def _axes(axis: Any) -> Any:
    """One dimension or several, as torch wants them; None stays."""
    if axis is None or isinstance(axis, int):
        return axis
    return tuple(int(one) for one in axis) if isinstance(axis, list | tuple) else int(axis)


def _every(x: torch.Tensor, axis: Any) -> Any:
    return tuple(range(x.dim())) if axis is None else _axes(axis)


def _dtype(given: Any) -> torch.dtype | None:
    return None if given is None else torch_dtype(canonical(given))


def _on_tensors(function: Kernel) -> Kernel:
    return lambda x, axis, keepdim: function(x, _every(x, axis), keepdim)


def _product_of(x: torch.Tensor, axis: Any, keepdim: bool, dtype: Any) -> torch.Tensor:
    made = x if dtype is None else x.to(torch_dtype(canonical(dtype)))
    for dim in sorted({one % x.dim() for one in integers(range(x.dim()) if axis is None else axis)}, reverse=True):
        made = torch.prod(made, dim, keepdim)
    return made


def _define(type: str, function: Kernel, grad: Grad | None, doc: str, v2: str, compute: Kernel | None) -> None:
    calls = Calls(doc, f"{type}(input, dim=None, keep_dim=False, name)", v2, compute, to_attrs=to_attrs)

    @register(type, inputs=("X",), attrs=_ATTRS, infer=_infer_reduce, grad=grad, calls=calls)
    def _(op: Operator, lowering: Lowering) -> Kernel:
        return _Reduction(op, lowering.shape(op.input("X")[0])).reduced(function)


_AXIS, _KEEP = "axis->dim=None", "keepdim->keep_dim=False"
_define(
    "reduce_sum",
    _total,
    Grad(needs=("X",)),
    "The sum over some dimensions, or over all.",
    f"sum(x, {_AXIS}, dtype=None, {_KEEP}, name)",
    lambda x, axis, dtype, keepdim: torch.sum(x, _axes(axis), keepdim, dtype=_dtype(dtype)),
)
_define(
    "reduce_mean",
    torch.mean,
    Grad(needs=("X",)),
    "The mean over some dimensions, or over all.",
    "",
    None,
)
_define(
    "reduce_max",
    torch.amax,
    Grad(needs=("X", "Out")),
    "The largest element over some dimensions, or over all; equal ones share the gradient.",
    f"max(x, {_AXIS}, {_KEEP}, name)",
    _on_tensors(torch.amax),
)
_define(
    "reduce_min",
    torch.amin,
    Grad(needs=("X", "Out")),
    "The smallest element over some dimensions, or over all; equal ones share the gradient.",
    f"min(x, {_AXIS}, {_KEEP}, name)",
    _on_tensors(torch.amin),
)
_define(
    "reduce_prod",
    _product,
    Grad(needs=("X",)),
    "The product over some dimensions, or over all.",
    f"prod(x, {_AXIS}, {_KEEP}, dtype=None, name)",
    _product_of,
)
_define(
    "reduce_all",
    torch.all,
    None,
    "Whether all are true, over some dimensions or over all.",
    f"all(x, {_AXIS}, {_KEEP}, name)",
    _on_tensors(torch.all),
)
_define(
    "reduce_any",
    torch.any,
    None,
    "Whether one is true, over some dimensions or over all.",
    f"any(x, {_AXIS}, {_KEEP}, name)",
    _on_tensors(torch.any),
)


def _infer_norm(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    _infer_reduce(infer)


def _norm_attrs(given: dict[str, Any]) -> dict[str, Any]:
    order = 2 if given["porder"] == "fro" else given["porder"]
    if not isinstance(order, int | float) or order == 0:
        raise NotSupportedError(f"norm: p must be 'fro', inf, -inf or a number other than 0, got {given['porder']!r}")
    return to_attrs(given | {"porder": float(order)})


def _norm_of(x: torch.Tensor, p: Any, axis: Any, keepdim: bool) -> torch.Tensor:
    found: torch.Tensor = torch.linalg.vector_norm(x, 2 if p == "fro" else p, _axes(axis), keepdim)
    return found


@register(
    "p_norm",
    inputs=("X",),
    attrs={"porder": 2.0, **_ATTRS},
    infer=_infer_norm,
    grad=Grad(needs=("X",)),
    calls=Calls(
        "The length of vectors, by default the Frobenius norm of all elements.",
        v2=f"norm(x, p->porder='fro', {_AXIS}, {_KEEP}, name)",
        torch=_norm_of,
        to_attrs=_norm_attrs,
    ),
)
def _p_norm(op: Operator, lowering: Lowering) -> Kernel:
    """Its gradient is torch's, and so 0 at vectors of zeros, where a square root has none."""
    order = op.attr("porder")
    reduction = _Reduction(op, lowering.shape(op.input("X")[0]))
    return reduction.reduced(lambda x, dims, keepdim: torch.linalg.vector_norm(x, order, dims, keepdim))


@register(
    "logsumexp",
    inputs=("X",),
    attrs=_ATTRS,
    infer=_infer_norm,
    grad=Grad(needs=("X",)),
    calls=Calls(
        "The logarithm of the sum of exp(x), over some dimensions or over all; no exp overflows.",
        v2=f"logsumexp(x, {_AXIS}, {_KEEP}, name)",
        torch=_on_tensors(torch.logsumexp),
        to_attrs=to_attrs,
    ),
)
def _logsumexp(op: Operator, lowering: Lowering) -> Kernel:
    return _Reduction(op, lowering.shape(op.input("X")[0])).reduced(torch.logsumexp)


@register_grad("reduce_sum", as_autograd=True)
def _reduce_sum_grad(op: Operator, lowering: Lowering) -> Kernel:
    reduction = _Reduction(op, lowering.shape(op.input("X")[0]))
    return lambda x, grad: reduction.back(grad, x.dim()).expand(x.shape)


@register_grad("reduce_mean", as_autograd=True)
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
