"""Parts of a variable, and a variable with more around it: slice, crop, pad."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of, computes, shape_tensor, view


def bounds(size: int, start: int, end: int) -> tuple[int, int]:
    """The part of a dimension of known size that a slice means; negative numbers count from its end."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def _infer_slice(infer: Infer) -> None:
    x, axes, starts, ends = infer.var("Input"), infer.attr("axes"), infer.attr("starts"), infer.attr("ends")
    if not len(axes) == len(starts) == len(ends):
        raise infer.fail(f"axes, starts and ends must be as many, got {len(axes)}, {len(starts)} and {len(ends)}")
    shape, gone = list(x.shape), infer.attr("decrease_axis")
    if not set(gone) <= set(axes) or list(gone) != sorted(set(gone)) or any(axis < 0 for axis in gone):
        raise infer.fail(f"decrease_axis must be some of axes {list(axes)}, ascending, got {list(gone)}")
    for axis, start, end in zip(axes, starts, ends, strict=True):
        axis = axis_of(infer, axis, len(shape), "axes")
        if axis in gone and start != -1 and end != start + 1:
            raise infer.fail(f"axis {axis} cannot be left out: {start}:{end} is more than one element of it")
        if shape[axis] < 0:
            # Only what does not depend on the size is known: the first few elements may be fewer in a small batch.
            continue
        first, last = bounds(shape[axis], start, end)
        if first == last:
            raise infer.fail(
                f"nothing of Input {x.name!r} of shape {list(x.shape)} lies in {start}:{end} of axis {axis}"
            )
        shape[axis] = last - first
    left = [size for axis, size in enumerate(shape) if axis not in gone] or [1]
    infer.set("Out", left, x.dtype, lod=None if 0 in [axis % len(shape) for axis in axes] else x.lod)
    infer.set("XShape", [len(shape)], "int64")


def _cuts_unknown(given: list[Any], attrs: dict[str, Any]) -> bool:
    """Whether the gradient cannot find the sizes before the cut."""
    shape = given[0].shape
    return any(-len(shape) <= axis < len(shape) and shape[axis] < 0 for axis in attrs["axes"])


def cut(x: torch.Tensor, axes: Any, starts: Any, ends: Any, strides: Any) -> torch.Tensor:
    """Every `strides`-th element from `starts` up to but without `ends` along `axes`; below 0 backwards."""
    for axis, start, end, stride in zip(axes, starts, ends, strides, strict=True):
        place = axis % x.dim()
        first, last, step = slice(int(start), int(end), int(stride)).indices(x.shape[place])
        if step > 0:
            x = x[(slice(None),) * place + (slice(first, last, step),)]
        else:
            x = torch.index_select(x, place, torch.arange(first, min(last, first), step, device=x.device))
    return x


@register(
    "slice",
    inputs=("Input",),
    outputs=("Out", "XShape?"),
    attrs={"axes": [0], "starts": [0], "ends": [1], "decrease_axis": []},
    infer=_infer_slice,
    grad=Grad(needs=("XShape",), wrt=("Input",), outs=("Out",)),
    calls=Calls(
        "The elements from `starts` up to but without `ends` along `axes`; negative numbers count from the end.",
        "slice(input, axes, starts, ends)",
        "slice(input, axes, starts, ends, name)",
        lambda input, axes, starts, ends: cut(input, axes, starts, ends, [1] * len(axes)),
        keeps=_cuts_unknown,
    ),
)
def _slice(op: Operator, lowering: Lowering) -> Kernel:
    """The axes of `decrease_axis`, of which one element is taken, are left out; of none at least [1] is left."""
    rank, gone = len(lowering.shape(op.input("Input")[0])), op.attr("decrease_axis")
    index: list[slice | int] = [slice(None)] * rank
    for axis, start, end in zip(op.attr("axes"), op.attr("starts"), op.attr("ends"), strict=True):
        index[axis % rank] = start if axis in gone else slice(start, end)
    place = tuple(index)
    cut = view((lambda x: x[place].view(1)) if len(gone) == rank else (lambda x: x[place]), op, lowering)
    return (lambda x: (cut(x), shape_tensor(x))) if op.output("XShape") else cut


@register_grad("slice", as_autograd=True)
def _slice_grad(op: Operator, lowering: Lowering) -> Kernel:
    before = lowering.shape(op.output("Input@GRAD")[0])
    rank = len(before)
    cuts = [
        (axis % rank, start, end)
        for axis, start, end in zip(op.attr("axes"), op.attr("starts"), op.attr("ends"), strict=True)
    ]

    gone = tuple(op.attr("decrease_axis"))

    def widen(grad: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
        for axis in gone[1:] if len(gone) == rank else gone:
            grad = grad.unsqueeze(axis)
        around = [0] * (2 * rank)
        for axis, start, end in cuts:
            first, last = bounds(sizes[axis], start, end)
            around[2 * (rank - 1 - axis)], around[2 * (rank - 1 - axis) + 1] = first, sizes[axis] - last
        return functional.pad(grad, around)

    if op.input("XShape"):
        return lambda shape, grad: widen(grad, shape.tolist())
    assert all(before[axis] >= 0 for axis, _, _ in cuts), (
        "slice of an unknown size needs XShape; build it with its layer"
    )
    return lambda grad: widen(grad, before)


def _infer_pad(infer: Infer) -> None:
    x, paddings = infer.var("X"), infer.attr("paddings")
    if len(paddings) != 2 * len(x.shape) or any(one < 0 for one in paddings):
        raise infer.fail(f"paddings must be two counts for each dimension of {list(x.shape)}, got {list(paddings)}")
    shape = [-1 if s < 0 else s + paddings[2 * i] + paddings[2 * i + 1] for i, s in enumerate(x.shape)]
    infer.set("Out", shape, x.dtype)


_PAD = {"paddings": [0, 0], "pad_value": 0.0}


@computes("pad", _infer_pad, "pad(x, paddings, pad_value=0.0, name)", attrs=_PAD, grad=Grad())
def _padded(x: torch.Tensor, paddings: list[int], pad_value: float) -> torch.Tensor:
    """x with `pad_value` around it: how many before and after, for each dimension."""
    return functional.pad(x, _from_the_end(paddings), value=pad_value)


@register_grad("pad", as_autograd=True)
def _pad_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    around = [-one for one in _from_the_end(op.attr("paddings"))]
    return lambda grad: functional.pad(grad, around)


def _from_the_end(paddings: list[int]) -> list[int]:
    """Paddings in torch's order: the last dimension first."""
    pairs = [(paddings[i], paddings[i + 1]) for i in range(0, len(paddings), 2)]
    return [one for pair in reversed(pairs) for one in pair]


def _infer_crop(infer: Infer) -> None:
    x, shape, offsets = infer.var("X"), infer.attr("shape"), infer.attr("offsets")
    if len(shape) != len(x.shape) or len(offsets) != len(x.shape):
        raise infer.fail(f"shape and offsets must have {len(x.shape)} numbers, got {list(shape)} and {list(offsets)}")
    for size, part, offset in zip(x.shape, shape, offsets, strict=True):
        if offset < 0 or (part < 1 and part != -1) or (size >= 0 and offset + part > size):
            raise infer.fail(
                f"{list(shape)} from {list(offsets)} on does not lie in X {x.name!r} of shape {list(x.shape)}"
            )
    rest = [
        size - offset if part == -1 and size >= 0 else part
        for size, part, offset in zip(x.shape, shape, offsets, strict=True)
    ]
    infer.set("Out", rest, x.dtype)


def _crop_attrs(given: dict[str, Any]) -> dict[str, Any]:
    sizes = [int(size) for size in given["shape"]]
    return {"shape": sizes, "offsets": [int(one) for one in given.get("offsets", [0] * len(sizes))]}


@computes(
    "crop",
    _infer_crop,
    "crop(x, shape, offsets=None, name)",
    attrs={"shape": [-1], "offsets": [0]},
    grad=Grad(needs=("X",)),
    around=view,
    to_attrs=_crop_attrs,
)
def _cropped(x: torch.Tensor, shape: list[int], offsets: list[int]) -> torch.Tensor:
    """The part of `x` of this shape that begins at `offsets`; -1 takes the rest of a dimension."""
    ends = (None if part == -1 else offset + part for part, offset in zip(shape, offsets, strict=True))
    return x[tuple(slice(*bounds) for bounds in zip(offsets, ends, strict=True))]
