"""Arithmetic of two variables, element by element, with PaddlePaddle's broadcasting.

Y is laid beside X from dimension `axis` of X on (-1: so that they end together), and sizes of 1 are repeated. Where
two sizes are left to the batch they must turn out equal: a batch of one row is not repeated for another of many. One
value is, as a factor: of a Y without a gradient that has fewer dimensions. So gradients need no more than shapes that
are known when the program is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.infer import site_of
from fleet_programs.definition.kinds import Shape
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import same_dtype

Unary = Callable[[torch.Tensor], torch.Tensor]
Binary = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_ATTRS = {"axis": -1}


class Alignment(NamedTuple):
    """Where an operand lies among the dimensions of the result."""

    before: int
    after: int
    """How many dimensions it lacks before and after its own."""
    wide: Shape
    """Its shape with 1 for each of them."""


def alignment_of(shape: Shape, rank: int, axis: int) -> Alignment | None:
    """Where an operand lies among `rank` dimensions; None if it sticks out, which ones at its end are allowed to."""
    own = len(shape)
    before = rank - own if axis == -1 else axis
    while before + own > rank and own > 0 and shape[own - 1] == 1:
        own -= 1
    if before < 0 or before + own > rank:
        return None
    after = rank - before - own
    return Alignment(before, after, (1,) * before + shape[:own] + (1,) * after)


def _alignment(shape: Shape, rank: int, axis: int) -> Alignment:
    found = alignment_of(shape, rank, axis)
    assert found is not None, "infer has checked it"
    return found


def infer_elementwise(infer: Infer, dtype: str | None = None) -> None:
    """The shape of both laid beside each other; `dtype` if the result is not what they are."""
    x, y, axis = infer.var("X"), infer.var("Y"), infer.attr("axis")
    rank = max(len(x.shape), len(y.shape))
    aligned_x, aligned_y = alignment_of(x.shape, rank, -1), alignment_of(y.shape, rank, axis)
    if aligned_x is None or aligned_y is None or (len(y.shape) > len(x.shape) and axis != -1):
        raise infer.fail(
            f"Y {y.name!r} of shape {list(y.shape)} does not lie in X {x.name!r} of {list(x.shape)} from axis {axis} on"
        )
    out = []
    for a, b in zip(aligned_x.wide, aligned_y.wide, strict=True):
        if a != b and min(a, b) > 1:
            raise infer.fail(
                f"X {x.name!r} of shape {list(x.shape)} and Y {y.name!r} of shape {list(y.shape)} do not go together "
                f"from axis {axis} on: {a} beside {b}"
            )
        out.append(b if a == 1 else a if b == 1 else max(a, b))
    same_dtype(infer, "X", "Y")
    if infer.op.type == "elementwise_div" and x.dtype not in FLOATS:
        raise infer.fail(f"X {x.name!r} is {x.dtype}; cast both to a float, or use elementwise_floordiv")
    infer.set("Out", out, dtype or x.dtype, lod=x.lod or (y.lod if len(y.shape) == rank else None))


def elementwise_kernel(function: Binary, op: Operator, lowering: Lowering) -> Kernel:
    """Lays Y beside X, and compares the sizes that the batch decides."""
    x, y = lowering.shape(op.input("X")[0]), lowering.shape(op.input("Y")[0])
    rank = max(len(x), len(y))
    aligned_x, aligned_y = _alignment(x, rank, -1), _alignment(y, rank, op.attr("axis"))
    lay = _laying(y, aligned_y)
    kernel = function if lay is None else _with_y(function, lay)
    is_factor = len(y) < len(x) and not lowering.block.has_var(f"{op.input('Y')[0]}@GRAD")
    pairs = [
        (i - aligned_x.before, i - aligned_y.before)
        for i, sizes in enumerate(zip(aligned_x.wide, aligned_y.wide, strict=True))
        if -1 in sizes and 1 not in sizes
    ]
    if not pairs:
        return kernel

    def compared(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        sizes_x, sizes_y = x.shape, y.shape
        for i, j in pairs:
            if sizes_x[i] != sizes_y[j] and not (is_factor and y.numel() == 1):
                raise _mismatch(op, sizes_x, sizes_y)
        return kernel(x, y)

    return compared


def _with_y(function: Binary, lay: Unary) -> Binary:
    return lambda x, y: function(x, lay(y))


def _laying(y: Shape, alignment: Alignment) -> Unary | None:
    """What gives Y the dimensions that it lacks at its end; None if there are none."""
    own, after = len(alignment.wide) - alignment.before - alignment.after, alignment.after
    return (lambda y: y.reshape(y.shape[:own] + (1,) * after)) if after or own < len(y) else None


def _mismatch(op: Operator, x: torch.Size, y: torch.Size) -> UsageError:
    return UsageError(
        f"{site_of(op)}{op.type}: X {op.input('X')[0]!r} has shape {list(x)} and Y {op.input('Y')[0]!r} has {list(y)} "
        "in this batch; feed as many rows of both"
    )


def _to_shape(op: Operator, lowering: Lowering, slot: str) -> Unary | None:
    """What adds up a gradient over the places where its variable was repeated; None if that was nowhere."""
    out = lowering.shape(op.input("Out@GRAD")[0])
    own, rank, axis = lowering.shape(op.output(slot + "@GRAD")[0]), len(out), op.attr("axis") if slot == "Y" else -1
    alignment = _alignment(own, rank, axis)
    repeated = [i for i, (a, b) in enumerate(zip(alignment.wide, out, strict=True)) if a == 1 and b != 1]
    lacking = [*range(alignment.before), *range(rank - alignment.after, rank)]
    if alignment.wide == own:
        return (lambda grad: grad.sum(repeated, keepdim=True)) if repeated else None
    if set(repeated) <= set(lacking) and len(own) == rank - len(lacking):
        return lambda grad: grad.sum(lacking)
    return lambda grad: (grad.sum(repeated, keepdim=True) if repeated else grad).reshape(own)


def aligned(function: Binary) -> Callable[..., torch.Tensor]:
    """`function` of tensors, the dimensions of y being those of x from `axis` on, or its last ones for -1."""

    def call(x: torch.Tensor, y: Any, axis: int) -> torch.Tensor:
        return function(x, y if axis == -1 else y.reshape((*y.shape, *[1] * (x.dim() - axis % x.dim() - y.dim()))))

    return call


def _binary(
    type: str, function: Binary, needs: tuple[str, ...] | None, doc: str, v2: Sequence[str] = (), has_axis: bool = False
) -> None:
    """Define an op of X and Y; `v2` are the names of 2.0's function, which `has_axis` as 1.x's layer does."""
    compute = aligned(function) if has_axis else function
    given = "(x, y, axis=-1, name)" if has_axis else "(x, y, name)"
    calls = [Calls(doc, f"{type}(x, y, axis=-1, act=None, name)", torch=function)]
    calls += [Calls(doc, v2=f"{name}{given}", torch=compute, is_sign=True) for name in v2]
    grad = None if needs is None else Grad(needs=needs, wrt=("X", "Y"))

    @register(type, inputs=("X", "Y"), attrs=_ATTRS, infer=infer_elementwise, grad=grad, calls=calls, rebinds=True)
    def _(op: Operator, lowering: Lowering) -> Kernel:
        return elementwise_kernel(function, op, lowering)


_binary("elementwise_add", torch.add, (), "x + y; y is laid beside x from dimension `axis` of x on.", ["add"])
_binary("elementwise_sub", torch.sub, (), "x - y, element by element.", ["subtract"])
_binary("elementwise_mul", torch.mul, ("X", "Y"), "x * y, element by element.", ["multiply"], has_axis=True)
_binary("elementwise_div", torch.div, ("Y", "Out"), "x / y, element by element.", ["divide"])
_binary("elementwise_max", torch.maximum, ("X", "Y"), "The larger of both.", ["maximum"], has_axis=True)
_binary("elementwise_min", torch.minimum, ("X", "Y"), "The smaller of both.", ["minimum"], has_axis=True)
_binary("elementwise_pow", torch.pow, ("X", "Y"), "x to the power y, element by element.")
_binary(
    "elementwise_mod",
    torch.remainder,
    ("X", "Y"),
    "The remainder of x / y, with the sign of y.",
    ["mod", "remainder", "floor_mod"],
)
_binary("elementwise_floordiv", torch.floor_divide, None, "x / y, rounded down.", ["floor_divide"])


def _backward(op: Operator, lowering: Lowering, of_x: Kernel, of_y: Kernel) -> Kernel:
    """The gradient kernel from two functions of what the gradient op reads; only what is wanted is computed."""
    found = []
    for slot, function in (("X", of_x), ("Y", of_y)):
        if op.output(slot + "@GRAD"):
            reduce = _to_shape(op, lowering, slot)
            found.append(function if reduce is None else _then(function, reduce))
    if len(found) == 1:
        return found[0]
    first, second = found
    return lambda *tensors: (first(*tensors), second(*tensors))


def _then(function: Kernel, reduce: Unary) -> Kernel:
    return lambda *tensors: reduce(function(*tensors))


def _laid_y(op: Operator, lowering: Lowering) -> Unary:
    """Y as the forward kernel laid it."""
    y, rank = lowering.shape(op.input("Y")[0]), len(lowering.shape(op.input("Out@GRAD")[0]))
    return _laying(y, _alignment(y, rank, op.attr("axis"))) or (lambda y: y)


@register_grad("elementwise_add", as_autograd=True)
def _add_grad(op: Operator, lowering: Lowering) -> Kernel:
    return _backward(op, lowering, lambda grad: grad, lambda grad: grad)


@register_grad("elementwise_sub", as_autograd=True)
def _sub_grad(op: Operator, lowering: Lowering) -> Kernel:
    return _backward(op, lowering, lambda grad: grad, torch.neg)


@register_grad("elementwise_mul", as_autograd=True)
def _mul_grad(op: Operator, lowering: Lowering) -> Kernel:
    lay = _laid_y(op, lowering)
    return _backward(op, lowering, lambda _, y, grad: grad * lay(y), lambda x, _, grad: grad * x)


@register_grad("elementwise_div", as_autograd=True)
def _div_grad(op: Operator, lowering: Lowering) -> Kernel:
    lay = _laid_y(op, lowering)
    return _backward(op, lowering, lambda y, _, grad: grad / lay(y), lambda y, out, grad: -grad * out / lay(y))


def _extreme_grad(op: Operator, lowering: Lowering, is_first: Kernel) -> Kernel:
    """The larger (or smaller) operand gets the gradient; equal ones share it."""
    lay = _laid_y(op, lowering)

    def share(winner: torch.Tensor, x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return torch.where(x == y, grad / 2, grad * winner)

    return _backward(
        op,
        lowering,
        lambda x, y, grad: share(is_first(x, lay(y)), x, lay(y), grad),
        lambda x, y, grad: share(is_first(lay(y), x), x, lay(y), grad),
    )


@register_grad("elementwise_max")
def _max_grad(op: Operator, lowering: Lowering) -> Kernel:
    return _extreme_grad(op, lowering, torch.gt)


@register_grad("elementwise_min")
def _min_grad(op: Operator, lowering: Lowering) -> Kernel:
    return _extreme_grad(op, lowering, torch.lt)
