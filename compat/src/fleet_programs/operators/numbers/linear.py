"""Matrix products."""

from __future__ import annotations

from math import prod

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering


def _product(sizes: tuple[int, ...]) -> int:
    return -1 if any(size < 0 for size in sizes) else prod(sizes)


def _infer_mul(infer: Infer) -> None:
    x, y = infer.var("X"), infer.var("Y")
    nx, ny = infer.attr("x_num_col_dims"), infer.attr("y_num_col_dims")
    if not 0 < nx < len(x.shape):
        raise infer.fail(f"X {x.name!r} of shape {list(x.shape)} has no place to cut at dimension {nx}")
    if not 0 < ny < len(y.shape):
        raise infer.fail(f"Y {y.name!r} of shape {list(y.shape)} has no place to cut at dimension {ny}")
    inner_x, inner_y = _product(x.shape[nx:]), _product(y.shape[:ny])
    if inner_x >= 0 and inner_y >= 0 and inner_x != inner_y:
        raise infer.fail(
            f"X {x.name!r} of shape {list(x.shape)} has {inner_x} columns, but Y {y.name!r} of shape {list(y.shape)} "
            f"has {inner_y} rows"
        )
    if x.dtype != y.dtype:
        raise infer.fail(f"X {x.name!r} is {x.dtype} and Y {y.name!r} is {y.dtype}; cast one of them")
    infer.set("Out", (*x.shape[:nx], *y.shape[ny:]), x.dtype, lod=x.lod)


@register(
    "mul",
    inputs=("X", "Y"),
    attrs={"x_num_col_dims": 1, "y_num_col_dims": 1},
    infer=_infer_mul,
    grad=Grad(needs=("X", "Y"), wrt=("X", "Y")),
    calls=Calls(
        "The product of two matrices, whose rows are the first `num_col_dims` dimensions of each and columns the rest.",
        "mul(x, y, x_num_col_dims=1, y_num_col_dims=1, name)",
    ),
)
def _mul(op: Operator, lowering: Lowering) -> Kernel:
    nx, ny = op.attr("x_num_col_dims"), op.attr("y_num_col_dims")
    if is_plain(op, lowering):
        return torch.mm

    def mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, nx - 1).flatten(1).mm(y.flatten(0, ny - 1).flatten(1))
        return flat.view(*x.shape[:nx], *y.shape[ny:])

    return mul


def is_plain(op: Operator, lowering: Lowering) -> bool:
    """Whether both sides are matrices as they are."""
    return len(lowering.shape(op.input("X")[0])) == 2 and len(lowering.shape(op.input("Y")[0])) == 2


@register_grad("mul", as_autograd=True)
def _mul_grad(op: Operator, lowering: Lowering) -> Kernel:
    nx, ny = op.attr("x_num_col_dims"), op.attr("y_num_col_dims")
    wants_x, wants_y = bool(op.output("X@GRAD")), bool(op.output("Y@GRAD"))
    if is_plain(op, lowering):
        if wants_x and wants_y:
            return lambda x, y, grad: (grad.mm(y.t()), x.t().mm(grad))
        return (lambda _, y, grad: grad.mm(y.t())) if wants_x else (lambda x, _, grad: x.t().mm(grad))

    def mul_grad(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor) -> object:
        flat_x, flat_y = x.flatten(0, nx - 1).flatten(1), y.flatten(0, ny - 1).flatten(1)
        flat = grad.reshape(flat_x.shape[0], flat_y.shape[1])
        found = []
        if wants_x:
            found.append(flat.mm(flat_y.t()).view(x.shape))
        if wants_y:
            found.append(flat_x.t().mm(flat).view(y.shape))
        return found[0] if len(found) == 1 else tuple(found)

    return mul_grad
