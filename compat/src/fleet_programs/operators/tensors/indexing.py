"""Operators about places: gather, scatter, one_hot, top_k, arg_max, argsort."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import INTEGERS, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of, computes, same_dtype


def _indexes(infer: Infer, slot: str) -> int:
    """The number of indexes in a slot that is [n] or [n, 1]."""
    var = infer.var(slot)
    infer.require_dtype(slot, INTEGERS)
    if len(var.shape) != 1 and not (len(var.shape) == 2 and var.shape[1] == 1):
        raise infer.fail(f"{slot} {var.name!r} must have shape [n] or [n, 1], got {list(var.shape)}")
    return var.shape[0]


def _infer_gather(infer: Infer) -> None:
    x = infer.var("X")
    infer.set("Out", (_indexes(infer, "Index"), *x.shape[1:]), x.dtype)


def _gather_attrs(given: dict[str, Any]) -> dict[str, Any]:
    del given["overwrite"]  # gradients of equal indexes are added either way, and True asks for the quicker of two ways
    return {}


_OF_PLACES = Grad(needs=("X", "Index"))


@computes(
    "gather",
    _infer_gather,
    "gather(input, index, overwrite=True)",
    inputs=("X", "Index"),
    grad=_OF_PLACES,
    to_attrs=_gather_attrs,
)
def _rows_at(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The rows of `input` at `index`; the gradients of a row that is taken twice are added."""
    return x.index_select(0, index.reshape(-1))


@register_grad("gather", as_autograd=True)
def _gather_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x, index, grad: torch.zeros_like(x).index_add_(0, index.reshape(-1), grad)


def _infer_scatter(infer: Infer) -> None:
    x, updates = infer.var("X"), infer.var("Updates")
    count = _indexes(infer, "Ids")
    same_dtype(infer, "X", "Updates")
    if updates.shape[1:] != x.shape[1:] or (count != updates.shape[0] and -1 not in (count, updates.shape[0])):
        raise infer.fail(
            f"Updates {updates.name!r} must have shape {[count, *x.shape[1:]]} for X {x.name!r} of {list(x.shape)}, "
            f"got {list(updates.shape)}"
        )
    infer.like("Out", "X")


_SCATTERED = "Other rows at some places: those of `updates`, or without `overwrite` the sum of those for each."


def scattered(x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, overwrite: bool) -> torch.Tensor:
    """A tensor with other rows at some places."""
    places = index.reshape(-1).long()
    if overwrite:
        return torch.index_copy(x, 0, places, updates)
    return torch.index_add(torch.index_fill(x, 0, places, 0), 0, places, updates)


@register(
    "scatter",
    inputs=("X", "Ids", "Updates"),
    attrs={"overwrite": True},
    infer=_infer_scatter,
    grad=Grad(needs=("Ids",), wrt=("X", "Updates")),
    calls=Calls(
        _SCATTERED,
        "scatter(input, index, updates, name, overwrite=True)",
        "scatter(x, index, updates, overwrite=True, name)",
        scattered,
    ),
)
def _scatter(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    overwrite = op.attr("overwrite")
    return lambda x, ids, updates: scattered(x, ids, updates, overwrite)


@register_grad("scatter")
def _scatter_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Rows that were written over take no gradient; with `overwrite`, ids that occur twice are the caller's mistake."""
    wants_x, wants_updates = bool(op.output("X@GRAD")), bool(op.output("Updates@GRAD"))

    def scatter_grad(ids: torch.Tensor, grad: torch.Tensor) -> object:
        flat = ids.reshape(-1).long()
        found = []
        if wants_x:
            found.append(grad.index_fill(0, flat, 0))
        if wants_updates:
            found.append(grad.index_select(0, flat))
        return found[0] if len(found) == 1 else tuple(found)

    return scatter_grad


def _infer_gather_nd(infer: Infer) -> None:
    x, index = infer.var("X"), infer.var("Index")
    infer.require_dtype("Index", INTEGERS)
    depth = index.shape[-1] if index.shape else -1
    if not 1 <= depth <= len(x.shape):
        raise infer.fail(
            f"the last size of Index {index.name!r} must be between 1 and {len(x.shape)}, got shape {list(index.shape)}"
        )
    infer.set("Out", (*index.shape[:-1], *x.shape[depth:]) or (1,), x.dtype)


def _gather_nd(op: Operator, lowering: Lowering) -> Kernel:
    x, index = (lowering.shape(op.input(slot)[0]) for slot in ("X", "Index"))
    if len(index) == 1 and len(x) == index[0]:
        return lambda x, index: _at_places(x, index.long()).reshape(1)
    return lambda x, index: _at_places(x, index.long())


@computes(
    "gather_nd",
    _infer_gather_nd,
    "gather_nd(input, index, name)",
    "gather_nd(x, index, name)",
    inputs=("X", "Index"),
    grad=_OF_PLACES,
    make=_gather_nd,
)
def _at_places(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """What is at each place; the last dimension of `index` counts along the first dimensions of the other."""
    return x[index.unbind(-1)]


def _infer_one_hot(infer: Infer) -> None:
    x, depth = infer.var("X"), infer.attr("depth")
    infer.require_dtype("X", INTEGERS)
    if not x.shape or x.shape[-1] != 1:
        raise infer.fail(f"X {x.name!r} must have shape [..., 1], got {list(x.shape)}")
    if depth < 1:
        raise infer.fail(f"depth must be at least 1, got {depth}")
    infer.set("Out", (*x.shape[:-1], depth), infer.attr("dtype"), lod=x.lod)


@register(
    "one_hot",
    inputs=("X",),
    attrs={"depth": 1, "dtype": "float32", "allow_out_of_range": False},
    infer=_infer_one_hot,
    calls=Calls(
        "For each class of [..., 1] a row of [..., depth] that is 1 there; zeros for one past `depth`, if allowed.",
        "one_hot(input, depth, allow_out_of_range=False)",
    ),
)
def _one_hot(op: Operator, lowering: Lowering) -> Kernel:
    depth, dtype = op.attr("depth"), torch_dtype(op.attr("dtype"))
    if op.attr("allow_out_of_range"):
        classes = torch.arange(depth, device=lowering.device)
        return lambda x: (x == classes).to(dtype)

    def one_hot(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros((*x.shape[:-1], depth), dtype=dtype, device=x.device)
        return out.scatter_(-1, x.long(), 1)

    return one_hot


def _infer_top_k(infer: Infer) -> None:
    x, k = infer.var("X"), infer.attr("k")
    if k < 1 or not x.shape or 0 <= x.shape[-1] < k:
        raise infer.fail(f"k must be between 1 and the last size of X {x.name!r} of shape {list(x.shape)}, got {k}")
    infer.set("Out", (*x.shape[:-1], k), x.dtype, lod=x.lod)
    infer.set("Indices", (*x.shape[:-1], k), "int64", lod=x.lod)


_ORDERED = ("Out", "Indices")


@computes(
    "top_k",
    _infer_top_k,
    "topk(input, k, name)",
    attrs={"k": 1},
    outputs=_ORDERED,
    grad=Grad(needs=("X", "Indices"), outs=("Out",)),
    returns=_ORDERED,
)
def _largest(x: torch.Tensor, k: int) -> Any:
    """(the `k` largest values along the last dimension, their indexes), largest first."""
    return x.max(-1, keepdim=True) if k == 1 else x.topk(k, -1)


@register_grad("top_k")
def _top_k_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x, indices, grad: torch.zeros_like(x).scatter_(-1, indices, grad)


def _infer_arg(infer: Infer) -> None:
    x = infer.var("X")
    axis = axis_of(infer, infer.attr("axis"), len(x.shape))
    infer.set("Out", x.shape[:axis] + x.shape[axis + 1 :] or (1,), "int64")


def _define_arg(type: str, function: Kernel, calls: Calls) -> None:
    @register(type, inputs=("X",), attrs={"axis": 0}, infer=_infer_arg, calls=calls)
    def _(op: Operator, lowering: Lowering) -> Kernel:
        axis = op.attr("axis")
        if len(lowering.shape(op.input("X")[0])) == 1:
            return lambda x: function(x, axis, keepdim=True)
        return lambda x: function(x, axis)


_define_arg("arg_max", torch.argmax, Calls("The index of the largest element along an axis.", "argmax(x, axis=0)"))
_define_arg("arg_min", torch.argmin, Calls("The index of the smallest element along an axis.", "argmin(x, axis=0)"))


def _infer_argsort(infer: Infer) -> None:
    x = infer.var("X")
    axis_of(infer, infer.attr("axis"), len(x.shape))
    infer.like("Out", "X")
    infer.set("Indices", x.shape, "int64", lod=x.lod)


_ORDER = "axis=-1, descending=False, name"


@register(
    "argsort",
    inputs=("X",),
    outputs=("Out", "Indices"),
    attrs={"axis": -1, "descending": False},
    infer=_infer_argsort,
    grad=Grad(needs=("Indices",), outs=("Out",)),
    calls=[
        Calls(
            "(the elements in order along an axis, where each was).",
            f"argsort(input, {_ORDER})",
            returns=("Out", "Indices"),
        ),
        Calls(
            "The places of the values in order along a dimension.",
            v2=f"argsort(x, {_ORDER})",
            torch=torch.argsort,
            returns=("Indices",),
        ),
        Calls(
            "The values in order along a dimension; their places are `argsort`.",
            v2=f"sort(x, {_ORDER})",
            torch=lambda x, axis, descending: torch.sort(x, axis, descending).values,
        ),
    ],
)
def _argsort(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    axis, descending = op.attr("axis"), op.attr("descending")
    return lambda x: x.sort(axis, descending=descending)


@register_grad("argsort")
def _argsort_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    axis = op.attr("axis")
    return lambda indices, grad: torch.empty_like(grad).scatter_(axis, indices, grad)
