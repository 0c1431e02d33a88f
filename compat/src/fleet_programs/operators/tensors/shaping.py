"""The same elements in another shape or order: reshape, squeeze, unsqueeze, flatten, transpose, reverse, roll."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from fleet.errors import NotSupportedError
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import (
    axis_of,
    backward_shape,
    bound,
    computes,
    integers,
    product,
    shape_tensor,
    view,
)


def reshaped(shape: Sequence[int], asked: Sequence[int]) -> list[int] | None:
    """The shape that `asked` means (0: as before, -1: the rest), -1 where unknown; None if it does not fit."""
    if list(asked).count(-1) > 1 or any(size < -1 or (size == 0 and i >= len(shape)) for i, size in enumerate(asked)):
        return None
    out = [shape[i] if size == 0 else size for i, size in enumerate(asked)]
    copied = sum(1 for i, size in enumerate(asked) if size == 0 and shape[i] == -1)
    is_all_known = list(shape).count(-1) == copied  # what is unknown goes over as it is, so the rest must match
    had, given = prod(size for size in shape if size >= 0), prod(size for size in out if size >= 0)
    if -1 not in asked:
        return out if (had == given if is_all_known else had > 0 and given % had == 0) else None
    if is_all_known:
        if given == 0 or had % given:
            return None
        out[list(asked).index(-1)] = had // given
    return out


def _infer_reshape(infer: Infer) -> None:
    x, asked = infer.var("X"), list(infer.attr("shape"))
    out = reshaped(x.shape, asked)
    if out is None:
        raise infer.fail(
            f"X {x.name!r} of shape {list(x.shape)} cannot be reshaped to {asked}; at most one -1, and 0 copies a size"
        )
    infer.set("Out", out, x.dtype, lod=x.lod if asked and out[0] == x.shape[0] else None)
    _set_x_shape(infer)


def _set_x_shape(infer: Infer) -> None:
    infer.set("XShape", [len(infer.shape("X"))], "int64")


def _has_unknown(given: list[Any], attrs: dict[str, Any]) -> bool:  # noqa: ARG001
    """Whether the gradient cannot find the shape of X: of a single unknown size it can."""
    return bool(given[0].shape.count(-1) > 1)


def _shape_attrs(given: dict[str, Any]) -> dict[str, Any]:
    if "actual_shape" in given:
        raise NotSupportedError("reshape: actual_shape must be left out; use -1 for the size that a batch decides")
    return {"shape": [int(size) for size in given["shape"]]}


def _formed(kernel: Kernel, op: Operator, lowering: Lowering) -> Kernel:
    """A view, and the shape before it where the gradient will ask for that."""
    form = view(kernel, op, lowering)
    return (lambda x: (form(x), shape_tensor(x))) if op.output("XShape") else form


_SHAPED: dict[str, Any] = {
    "outputs": ("Out", "XShape?"),
    "grad": Grad(needs=("XShape",), outs=("Out",)),
    "around": _formed,
    "keeps": _has_unknown,
}
"""XShape is there only if the shape of X cannot be found again in another way; see `making.backward_shape`."""


@computes(
    "reshape",
    _infer_reshape,
    "reshape(x, shape, actual_shape=None, act=None, inplace=False, name)",
    "reshape(x, shape, name)",
    {"shape": [-1]},
    **_SHAPED,
    to_attrs=_shape_attrs,
)
def in_shape(x: torch.Tensor, shape: Any) -> torch.Tensor:
    """The same elements in another shape: 0 copies a size of `x`, one -1 is found from the others."""
    if type(shape) is list and 0 not in shape:  # nearly always, and half the time of the other way
        return torch.reshape(x, shape)
    return torch.reshape(x, [x.size(i) if size == 0 else size for i, size in enumerate(integers(shape))])


def _to_shape_before(op: Operator, lowering: Lowering) -> Kernel:
    if op.input("XShape"):
        return lambda shape, grad: grad.reshape(shape.tolist())
    before = backward_shape(op, lowering)
    return lambda grad: grad.reshape(before)


register_grad("reshape", as_autograd=True)(_to_shape_before)


def _infer_flatten(infer: Infer) -> None:
    x, axis = infer.var("X"), infer.attr("axis")
    if not 0 <= axis <= len(x.shape):
        raise infer.fail(f"axis must be between 0 and {len(x.shape)} for X {x.name!r}, got {axis}")
    infer.set("Out", [product(x.shape[:axis]), product(x.shape[axis:])], x.dtype, lod=x.lod if axis == 1 else None)
    _set_x_shape(infer)


@computes("flatten", _infer_flatten, "flatten(x, axis=1, name)", attrs={"axis": 1}, **_SHAPED)
def _as_matrix(x: torch.Tensor, axis: int) -> torch.Tensor:
    """A matrix of the first `axis` dimensions and of the rest."""
    return x.reshape(x.shape[:axis].numel(), x.shape[axis:].numel())


register_grad("flatten", as_autograd=True)(_to_shape_before)


def _infer_squeeze(infer: Infer) -> None:
    x = infer.var("X")
    for axis in infer.attr("axes"):
        axis_of(infer, axis, len(x.shape), "axes")
    axes = _gone(infer.attr("axes"), x.shape)
    if any(x.shape[axis] not in (1, -1) for axis in axes):
        raise infer.fail(
            f"X {x.name!r} of shape {list(x.shape)} has more than one element along axes {infer.attr('axes')}"
        )
    infer.set("Out", [s for i, s in enumerate(x.shape) if i not in axes], x.dtype, lod=None if 0 in axes else x.lod)


def _gone(axes: list[int], shape: Sequence[int]) -> set[int]:
    """The dimensions that go: those given, or all that are of size 1."""
    return _positive(axes, len(shape)) if axes else {i for i, size in enumerate(shape) if size == 1}


def squeezed(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """A tensor without dimensions of size 1: all, or those given."""
    return torch.squeeze(x) if axis is None else torch.squeeze(x, integers(axis))


@register(
    "squeeze",
    inputs=("X",),
    attrs={"axes": []},
    infer=_infer_squeeze,
    grad=Grad(),
    calls=Calls(
        "Without some dimensions of size 1; without all of them if none are given.",
        "squeeze(input, axes, name)",
        "squeeze(x, axis->axes=None, name)",
        squeezed,
    ),
)
def _squeeze(op: Operator, lowering: Lowering) -> Kernel:
    gone = _gone(op.attr("axes"), lowering.shape(op.input("X")[0]))

    def squeeze(x: torch.Tensor) -> torch.Tensor:
        return x.reshape([size for i, size in enumerate(x.shape) if i not in gone])

    return view(squeeze, op, lowering)


@register_grad("squeeze", as_autograd=True)
def _squeeze_grad(op: Operator, lowering: Lowering) -> Kernel:
    return _inserter(sorted(_gone(op.attr("axes"), lowering.shape(op.output("X@GRAD")[0]))))


def _infer_unsqueeze(infer: Infer) -> None:
    x, axes = infer.var("X"), infer.attr("axes")
    rank = len(x.shape) + len(axes)
    places = sorted(axis_of(infer, axis, rank, "axes") for axis in axes)
    if len(set(places)) != len(places):
        raise infer.fail(f"axes must be different, got {list(axes)}")
    shape = list(x.shape)
    for axis in places:
        shape.insert(axis, 1)
    infer.set("Out", shape, x.dtype, lod=None if 0 in places else x.lod)


def _unsqueeze(op: Operator, lowering: Lowering) -> Kernel:
    axes = op.attr("axes")
    rank = len(lowering.shape(op.input("X")[0])) + len(axes)
    return view(_inserter(sorted(_positive(axes, rank))), op, lowering)


@computes(
    "unsqueeze",
    _infer_unsqueeze,
    "unsqueeze(input, axes, name)",
    "unsqueeze(x, axis->axes, name)",
    {"axes": [0]},
    grad=Grad(),
    make=_unsqueeze,
)
def unsqueezed(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """With more dimensions of size 1, which are there in the result; tensors get one after the other."""
    for one in integers(axis.tolist() if isinstance(axis, torch.Tensor) else axis):
        x = torch.unsqueeze(x, one)
    return x


@register_grad("unsqueeze", as_autograd=True)
def _unsqueeze_grad(op: Operator, lowering: Lowering) -> Kernel:
    axes = op.attr("axes")
    gone = tuple(_positive(axes, len(lowering.shape(op.output("X@GRAD")[0])) + len(axes)))
    return lambda grad: grad.squeeze(gone)


def _positive(axes: list[int], rank: int) -> set[int]:
    return {axis % rank for axis in axes}


def _inserter(axes: list[int]) -> Kernel:
    def insert(x: torch.Tensor) -> torch.Tensor:
        for axis in axes:
            x = x.unsqueeze(axis)
        return x

    return insert


def _infer_transpose(infer: Infer) -> None:
    x, perm = infer.var("X"), list(infer.attr("axis"))
    if sorted(perm) != list(range(len(x.shape))):
        raise infer.fail(f"perm must name each dimension of X {x.name!r} of shape {list(x.shape)} once, got {perm}")
    infer.set("Out", [x.shape[axis] for axis in perm], x.dtype, lod=x.lod if perm[:1] == [0] else None)


_TRANSPOSE = "transpose(x, perm->axis, name)"


@computes("transpose", _infer_transpose, _TRANSPOSE, _TRANSPOSE, {"axis": [0]}, grad=Grad(), around=view)
def _permuted(x: torch.Tensor, axis: Sequence[int]) -> torch.Tensor:
    """The dimensions in another order: dimension i of the result is `perm[i]` of `x`."""
    return torch.permute(x, tuple(axis))


@register_grad("transpose", as_autograd=True)
def _transpose_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    perm = list(op.attr("axis"))
    back = tuple(perm.index(axis) for axis in range(len(perm)))
    return lambda grad: grad.permute(back)


def _infer_reverse(infer: Infer) -> None:
    for axis in infer.attr("axis"):
        axis_of(infer, axis, len(infer.shape("X")))
    infer.like("Out", "X")


@computes("reverse", _infer_reverse, "reverse(x, axis)", "flip(x, axis, name)", {"axis": [0]}, grad=Grad())
def _flipped(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """Back to front along some dimensions."""
    return torch.flip(x, integers(axis))


register_grad("reverse")(bound(_flipped, "axis"))


def _infer_roll(infer: Infer) -> None:
    shifts, axes = infer.attr("shifts"), infer.attr("axis")
    for axis in axes:
        axis_of(infer, axis, len(infer.shape("X")))
    if len(shifts) != (len(axes) or 1):
        raise infer.fail(f"shifts must be as many as axis, or one without, got {list(shifts)} and {list(axes)}")
    infer.like("Out", "X")


@computes("roll", _infer_roll, v2="roll(x, shifts, axis=None, name)", attrs={"shifts": [0], "axis": []}, grad=Grad())
def _rolled(x: torch.Tensor, shifts: Any, axis: Any) -> torch.Tensor:
    """The entries further by `shifts`, those from the end at the start; without `axis` as if in one row."""
    return torch.roll(x, integers(shifts), () if axis is None else integers(axis))


@register_grad("roll")
def _roll_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    shifts, axes = [-shift for shift in op.attr("shifts")], list(op.attr("axis"))
    return lambda grad: grad.roll(shifts, axes)
