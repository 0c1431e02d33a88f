"""Variables put together and taken apart: concat, split, stack, unstack, expand."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of, bound, computes


def _infer_concat(infer: Infer) -> None:
    parts, first = infer.vars("X"), infer.var("X")
    rank = len(first.shape)
    axis = axis_of(infer, infer.attr("axis"), rank)
    total, shape = 0, list(first.shape)
    for part in parts:
        own = list(part.shape)
        if part.dtype != first.dtype:
            raise infer.fail(f"{part.name!r} is {part.dtype} and {first.name!r} is {first.dtype}; cast one of them")
        if len(own) != rank or not may_equal(own[:axis] + own[axis + 1 :], shape[:axis] + shape[axis + 1 :]):
            raise infer.fail(
                f"{first.name!r} of shape {list(first.shape)} and {part.name!r} of {own} differ not only in axis {axis}"
            )
        shape = [max(a, b) for a, b in zip(shape, own, strict=True)]
        total = -1 if -1 in (total, own[axis]) else total + own[axis]
    shape[axis] = total
    infer.set("Out", shape, first.dtype, lod=first.lod if axis else None)
    infer.set("Sizes", [len(parts)], "int64")


def _has_unknown(parts: list[Any], attrs: dict[str, Any]) -> bool:
    """Whether the gradient cannot find the sizes of the parts: a single one that is unknown is the rest."""
    axis = attrs["axis"]
    return len([1 for part in parts if -len(part.shape) <= axis < len(part.shape) and part.shape[axis] < 0]) > 1


def _concatenated(*parts: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.cat(parts, axis)


def _concat(op: Operator, lowering: Lowering) -> Kernel:
    axis = op.attr("axis")
    if op.output("Sizes"):
        return lambda *parts: (torch.cat(parts, axis), torch.tensor([part.shape[axis] for part in parts]))
    return bound(_concatenated, "axis")(op, lowering)


@computes(
    "concat",
    _infer_concat,
    "concat(input, axis=0, name)",
    "concat(x, axis=0, name)",
    {"axis": 0},
    inputs=("X*",),
    outputs=("Out", "Sizes?"),
    grad=Grad(needs=("Sizes",), outs=("Out",)),
    make=_concat,
    keeps=_has_unknown,
)
def _joined(x: Any, axis: Any) -> torch.Tensor:
    """Several one after the other along a dimension; a tensor without dimensions counts as one of shape [1]."""
    several = x if type(x) is list else list(x)
    try:
        has_numbers = 0 in [one.dim() for one in several]
    except AttributeError:  # torch.cat names what is no tensor
        has_numbers = False
    if has_numbers:
        several = [torch.reshape(one, (1,)) if one.dim() == 0 else one for one in several]
    return torch.cat(several, int(axis))


@register_grad("concat", as_autograd=True)
def _concat_grad(op: Operator, lowering: Lowering) -> Kernel:
    axis, count = op.attr("axis"), len(op.output("X@GRAD"))
    if op.input("Sizes"):
        return _parted(lambda sizes, grad: grad.split(sizes.tolist(), axis), count)
    sizes = [lowering.shape(name)[axis] for name in op.output("X@GRAD")]
    if -1 in sizes:  # only one: a layer adds Sizes if there are more
        assert sizes.count(-1) == 1, "concat of several unknown sizes needs the output Sizes; build it with its layer"
        at, known = sizes.index(-1), sum(sizes) + 1

        def with_rest(grad: torch.Tensor) -> Any:
            return grad.split([*sizes[:at], grad.shape[axis] - known, *sizes[at + 1 :]], axis)

        return _parted(with_rest, count)
    return _parted(lambda grad: grad.split(sizes, axis), count)


def _parted(kernel: Kernel, count: int) -> Kernel:
    """A kernel that returns what it makes alone if it is one."""
    return kernel if count > 1 else lambda *tensors: kernel(*tensors)[0]


def split_sizes(size: int, num: int, sections: list[int]) -> list[int] | None:
    """The sizes of the parts (-1 in `sections`: the rest), -1 where unknown; None if they do not fit."""
    if not sections:
        return [-1] * num if size < 0 else [size // num] * num if num > 0 and size % num == 0 else None
    if sections.count(-1) > 1 or any(part < -1 or part == 0 for part in sections):
        return None
    known = sum(part for part in sections if part > 0)
    if -1 in sections:
        return None if 0 <= size <= known else [size - known if part == -1 and size >= 0 else part for part in sections]
    return sections if size in (-1, known) else None


def _infer_split(infer: Infer) -> None:
    x, num, sections = infer.var("X"), infer.attr("num"), list(infer.attr("sections"))
    axis = axis_of(infer, infer.attr("axis"), len(x.shape), "dim")
    sizes = split_sizes(x.shape[axis], num, sections)
    if sizes is None or len(sizes) != len(infer.op.output("Out")):
        raise infer.fail(
            f"X {x.name!r} of shape {list(x.shape)} cannot be split along dimension {axis} into {sections or num} parts"
        )
    for index, size in enumerate(sizes):
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        infer.set("Out", shape, x.dtype, index=index, lod=x.lod if axis else None)


@register(
    "split",
    inputs=("X",),
    outputs=("Out*",),
    attrs={"axis": 0, "num": 0, "sections": []},
    infer=_infer_split,
    grad=Grad(),
)
def _split(op: Operator, lowering: Lowering) -> Kernel:
    axis, count = op.attr("axis"), len(op.output("Out"))
    name = op.input("X")[0]
    sizes = [lowering.shape(part)[axis] for part in op.output("Out")]
    is_lasting = lowering.var(name).persistable
    num, known = op.attr("num"), sum(size for size in sizes if size > 0)

    def split(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if -1 in sizes:
            here = x.shape[axis]
            parts = x.split([size if size >= 0 else here // num if num else here - known for size in sizes], axis)
        else:
            parts = x.split(sizes, axis)
        return tuple(part.clone() for part in parts) if is_lasting else parts

    return _parted(split, count)


register_grad("split", as_autograd=True)(bound(_concatenated, "axis"))


def _infer_stack(infer: Infer) -> None:
    parts, first = infer.vars("X"), infer.var("X")
    axis = axis_of(infer, infer.attr("axis"), len(first.shape) + 1)
    for part in parts:
        if not may_equal(part.shape, first.shape) or part.dtype != first.dtype:
            raise infer.fail(
                f"{first.name!r} ({first.dtype}, {list(first.shape)}) and {part.name!r} ({part.dtype}, "
                f"{list(part.shape)}) differ; what is stacked must be alike"
            )
    infer.set("Y", (*first.shape[:axis], len(parts), *first.shape[axis:]), first.dtype)


def _stacked(*parts: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.stack(parts, axis)


@computes(
    "stack",
    _infer_stack,
    "stack(x, axis=0)",
    "stack(x, axis=0, name)",
    {"axis": 0},
    inputs=("X*",),
    outputs=("Y",),
    grad=Grad(),
    make=bound(_stacked, "axis"),
)
def _stack(x: Any, axis: int) -> torch.Tensor:
    """Several of one shape side by side along a new dimension."""
    return torch.stack(list(x), axis)


@register_grad("stack", as_autograd=True)
def _stack_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    axis = op.attr("axis")
    return _parted(lambda grad: grad.unbind(axis), len(op.output("X@GRAD")))


def _infer_unstack(infer: Infer) -> None:
    x = infer.var("X")
    axis = axis_of(infer, infer.attr("axis"), len(x.shape))
    if x.shape[axis] != infer.attr("num") or len(infer.op.output("Y")) != infer.attr("num"):
        raise infer.fail(
            f"X {x.name!r} of shape {list(x.shape)} does not have {infer.attr('num')} parts along axis {axis}"
        )
    for index in range(infer.attr("num")):
        infer.set("Y", x.shape[:axis] + x.shape[axis + 1 :], x.dtype, index=index)


@register("unstack", inputs=("X",), outputs=("Y*",), attrs={"axis": 0, "num": 1}, infer=_infer_unstack, grad=Grad())
def _unstack(op: Operator, lowering: Lowering) -> Kernel:
    axis, is_lasting = op.attr("axis"), lowering.var(op.input("X")[0]).persistable
    return _parted(lambda x: (x.clone() if is_lasting else x).unbind(axis), len(op.output("Y")))


register_grad("unstack", as_autograd=True)(bound(_stacked, "axis"))


def _infer_expand(infer: Infer) -> None:
    x, times = infer.var("X"), infer.attr("expand_times")
    if len(times) != len(x.shape) or any(one < 1 for one in times):
        raise infer.fail(
            f"expand_times must be a count from 1 for each dimension of {list(x.shape)}, got {list(times)}"
        )
    sizes = [-1 if size < 0 else size * one for size, one in zip(x.shape, times, strict=True)]
    infer.set("Out", sizes, x.dtype, lod=x.lod if times[:1] == [1] else None)


@computes("expand", _infer_expand, "expand(x, expand_times, name)", attrs={"expand_times": [1]}, grad=Grad())
def _repeated(x: torch.Tensor, expand_times: list[int]) -> torch.Tensor:
    """x repeated along each dimension so many times."""
    return x.repeat(expand_times)


@register_grad("expand", as_autograd=True)
def _expand_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    times = list(op.attr("expand_times"))
    dims = list(range(0, 2 * len(times), 2))

    def add_up(grad: torch.Tensor) -> torch.Tensor:
        sizes = [part for size, one in zip(grad.shape, times, strict=True) for part in (one, size // one)]
        return grad.view(sizes).sum(dims) if grad.is_contiguous() else grad.reshape(sizes).sum(dims)

    return add_up
