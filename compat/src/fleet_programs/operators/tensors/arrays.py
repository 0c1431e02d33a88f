"""Arrays: several tensors in their order, under one name. A loop writes one in every turn, or reads one.

An array that is written becomes another: the one before stays as it was, so that gradients find what they need.
"""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.definition.kinds import ARRAY
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering

MAX_LENGTH = 1 << 24
"""Of an array: an index beyond it is a mistake, not a wish for so many tensors."""


def _infer_array(infer: Infer) -> None:
    out = infer.block.var(infer.op.output("Out")[0])  # what is written to it later says what it holds
    infer.set("Out", out.shape, out.dtype if out.shape else infer.attr("dtype"), kind=ARRAY)


@register("create_array", attrs={"dtype": "float32"}, infer=_infer_array)
def _create_array(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return list


def _require_array(infer: Infer, slot: str) -> None:
    var = infer.var(slot)
    if var.kind != ARRAY:
        raise infer.fail(f"{slot} {var.name!r} must be an array; make one with create_array()")


def _require_index(infer: Infer) -> None:
    infer.require_dtype("I", INTEGERS)
    if any(size not in (1, -1) for size in infer.shape("I")):
        raise infer.fail(f"I {infer.var('I').name!r} must be one number, got shape {list(infer.shape('I'))}")


def _infer_write(infer: Infer) -> None:
    _require_array(infer, "Array")
    _require_index(infer)
    x, array = infer.var("X"), infer.block.var(infer.op.output("Out")[0])
    if array.shape and (x.dtype != array.dtype or len(x.shape) != len(array.shape)):
        raise infer.fail(
            f"{array.name!r} holds {array.dtype} of shape {list(array.shape)} and cannot take {x.name!r}, {x.dtype} of "
            f"shape {list(x.shape)}; use an array of its own"
        )
    sizes = x.shape
    if array.shape:
        sizes = tuple(a if a == b else -1 for a, b in zip(array.shape, x.shape, strict=True))
    array.shape, array.dtype, array.kind = sizes, x.dtype, ARRAY


def index_of(i: torch.Tensor) -> int:
    """A place in an array."""
    place = int(i)
    if not 0 <= place < MAX_LENGTH:
        raise UsageError(f"an index of an array must be from 0 to {MAX_LENGTH - 1}, got {place}")
    return place


@register(
    "write_to_array",
    inputs=("X", "I", "Array"),
    infer=_infer_write,
    grad=Grad(needs=("X", "I"), wrt=("X", "Array")),
    rebinds=True,
    takes_arrays=True,
)
def _write(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def write(x: torch.Tensor, i: torch.Tensor, array: list[Any]) -> list[Any]:
        place = index_of(i)
        made = list(array)
        made += [None] * (place + 1 - len(made))
        made[place] = x.clone()
        return made

    return write


@register_grad("write_to_array")
def _write_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    wants = [bool(op.output(slot)) for slot in ("X@GRAD", "Array@GRAD")]

    def split(x: torch.Tensor, i: torch.Tensor, grads: list[Any]) -> Any:
        place = index_of(i)
        own = grads[place] if place < len(grads) and grads[place] is not None else torch.zeros_like(x)
        if not wants[1]:
            return own
        others = [None if at == place else one for at, one in enumerate(grads)]
        return (own, others) if wants[0] else others

    return split


def _infer_read(infer: Infer) -> None:
    _require_array(infer, "X")
    _require_index(infer)
    array = infer.var("X")
    infer.set("Out", array.shape, array.dtype)


@register(
    "read_from_array", inputs=("X", "I"), infer=_infer_read, grad=Grad(needs=("I",), wrt=("X",)), takes_arrays=True
)
def _read(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    name = op.input("X")[0]

    def read(array: list[Any], i: torch.Tensor) -> Any:
        place = index_of(i)
        if place >= len(array) or array[place] is None:
            raise UsageError(f"array {name!r} of {len(array)} has nothing at {place}; write there first")
        return array[place]

    return read


@register_grad("read_from_array")
def _read_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda i, grad: [None] * index_of(i) + [grad]


def _infer_length(infer: Infer) -> None:
    _require_array(infer, "X")
    infer.set("Out", [1], "int64")


@register("lod_array_length", inputs=("X",), infer=_infer_length, takes_arrays=True)
def _length(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda array: torch.tensor([len(array)], dtype=torch.int64, device=lowering.device)


def _infer_joined(infer: Infer) -> None:
    _require_array(infer, "X")
    array, axis = infer.var("X"), infer.attr("axis")
    rank = len(array.shape) + (1 if infer.attr("use_stack") else 0)
    if not -rank <= axis < rank:
        raise infer.fail(f"axis must be between {-rank} and {rank - 1}, got {axis}")
    axis %= rank
    sizes = list(array.shape)
    sizes[axis : axis + (0 if infer.attr("use_stack") else 1)] = [-1]
    infer.set("Out", sizes, array.dtype)
    infer.set("OutIndex", [-1], "int32")


@register(
    "tensor_array_to_tensor",
    inputs=("X",),
    outputs=("Out", "OutIndex"),
    attrs={"axis": 0, "use_stack": False},
    infer=_infer_joined,
    grad=Grad(needs=("X",), wrt=("X",), outs=("Out",)),
    takes_arrays=True,
)
def _join(op: Operator, lowering: Lowering) -> Kernel:
    axis, join = op.attr("axis"), torch.stack if op.attr("use_stack") else torch.cat
    name = op.input("X")[0]

    def joined(array: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        if not array or any(one is None for one in array):
            raise UsageError(f"array {name!r} has no tensor at {array.index(None) if array else 0}; write there first")
        sizes = [1 if op.attr("use_stack") else one.shape[axis] for one in array]
        return join(array, axis), torch.tensor(sizes, dtype=torch.int32, device=lowering.device)

    return joined


@register_grad("tensor_array_to_tensor")
def _join_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    axis = op.attr("axis")
    if op.attr("use_stack"):
        return lambda array, grad: list(grad.unbind(axis))  # noqa: ARG005
    return lambda array, grad: list(grad.split([one.shape[axis] for one in array], axis))


def _infer_taken_apart(infer: Infer) -> None:
    x = infer.var("X")
    if not x.shape:
        raise infer.fail(f"X {x.name!r} has no dimension to be taken apart along")
    infer.set("Out", x.shape[1:] or [1], x.dtype, kind=ARRAY)


@register(
    "tensor_to_array", inputs=("X",), infer=_infer_taken_apart, grad=Grad(needs=("X",), wrt=("X",)), takes_arrays=True
)
def _take_apart(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x: list(x.unbind(0)) if x.ndim > 1 else list(x.split(1))


@register_grad("tensor_to_array")
def _take_apart_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def put_together(x: torch.Tensor, grads: list[Any]) -> torch.Tensor:
        whole = torch.zeros_like(x)
        for place, grad in enumerate(grads):
            if grad is not None:
                whole[place] = grad.reshape(x.shape[1:])
        return whole

    return put_together
