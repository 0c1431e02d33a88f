"""`matmul`: products of matrices, of batches of them, and of vectors."""

from __future__ import annotations

import torch

from fleet_programs.definition.kinds import Shape
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import same_dtype


def _as_matrices(x: Shape, y: Shape, transpose_x: bool, transpose_y: bool) -> tuple[Shape, Shape]:
    """The shapes that are multiplied: a vector is a row on the left and a column on the right."""
    wide_x = (1, *x) if len(x) == 1 else x
    wide_y = (*y, 1) if len(y) == 1 else y
    if transpose_x and len(x) > 1:
        wide_x = (*x[:-2], x[-1], x[-2])
    if transpose_y and len(y) > 1:
        wide_y = (*y[:-2], y[-1], y[-2])
    return wide_x, wide_y


def _infer_matmul(infer: Infer) -> None:
    x, y = infer.var("X"), infer.var("Y")
    same_dtype(infer, "X", "Y")
    wide_x, wide_y = _as_matrices(x.shape, y.shape, infer.attr("transpose_X"), infer.attr("transpose_Y"))
    if not x.shape or not y.shape or (wide_x[-1] != wide_y[-2] and -1 not in (wide_x[-1], wide_y[-2])):
        raise infer.fail(
            f"X {x.name!r} of shape {list(x.shape)} and Y {y.name!r} of shape {list(y.shape)} do not multiply: "
            f"{wide_x[-1:]} columns and {wide_y[-2:-1]} rows"
        )
    batch_x, batch_y = wide_x[:-2], wide_y[:-2]
    rank = max(len(batch_x), len(batch_y))
    batch = []
    for a, b in zip((1,) * (rank - len(batch_x)) + batch_x, (1,) * (rank - len(batch_y)) + batch_y, strict=True):
        if a != b and min(a, b) > 1:
            raise infer.fail(
                f"X {x.name!r} of shape {list(x.shape)} and Y {y.name!r} of {list(y.shape)}: {a} matrices beside {b}"
            )
        batch.append(b if a == 1 else a if b == 1 else max(a, b))
    out = (*batch, *wide_x[-2:-1][: len(x.shape) > 1], *wide_y[-1:][: len(y.shape) > 1])
    infer.set("Out", out or (1,), x.dtype, lod=x.lod if len(x.shape) > 1 and not infer.attr("transpose_X") else None)


def _product_of(x: torch.Tensor, y: torch.Tensor, transpose_x: bool, transpose_y: bool) -> torch.Tensor:
    return torch.matmul(x.mT if transpose_x and x.dim() > 1 else x, y.mT if transpose_y and y.dim() > 1 else y)


@register(
    "matmul",
    inputs=("X", "Y"),
    attrs={"transpose_X": False, "transpose_Y": False, "alpha": 1.0},
    infer=_infer_matmul,
    grad=Grad(needs=("X", "Y"), wrt=("X", "Y")),
    calls=[
        Calls(
            "The product of matrices, or of batches of them; a vector is a row on the left and a column on the right.",
            "matmul(x, y, transpose_x->transpose_X=False, transpose_y->transpose_Y=False, alpha=1.0, name)",
            "matmul(x, y, transpose_x->transpose_X=False, transpose_y->transpose_Y=False, name)",
            _product_of,
        ),
        Calls("The product of two matrices.", v2="mm(input, mat2, name)", torch=torch.mm),
        Calls("The products of two batches of matrices.", v2="bmm(x, y, name)", torch=torch.bmm),
    ],
)
def _matmul(op: Operator, lowering: Lowering) -> Kernel:
    x, y = lowering.shape(op.input("X")[0]), lowering.shape(op.input("Y")[0])
    alpha = op.attr("alpha")
    turn_x, turn_y = op.attr("transpose_X") and len(x) > 1, op.attr("transpose_Y") and len(y) > 1
    is_dot = len(x) == len(y) == 1

    def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.matmul(x.mT if turn_x else x, y.mT if turn_y else y)
        if alpha != 1:
            out = out * alpha
        return out.view(1) if is_dot else out

    return matmul


@register_grad("matmul", as_autograd=True)
def _matmul_grad(op: Operator, lowering: Lowering) -> Kernel:
    x, y = lowering.shape(op.input("X")[0]), lowering.shape(op.input("Y")[0])
    product = _Product(op, len(x), len(y))
    if len(y) == 2 and len(x) > 2 and not product.turn_x:
        return lambda x, y, grad: product.grads(x.flatten(0, -2), y, grad.flatten(0, -2), x.shape)
    if len(x) >= 2 and len(y) >= 2:
        return lambda x, y, grad: product.grads(x, y, grad, x.shape)

    def of_vectors(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor) -> object:
        if x.dim() == 1:
            grad = grad.view(1, 1) if y.dim() == 1 else grad.unsqueeze(-2)
        elif y.dim() == 1:
            grad = grad.unsqueeze(-1)
        return product.grads(
            x.unsqueeze(0) if x.dim() == 1 else x, y.unsqueeze(1) if y.dim() == 1 else y, grad, x.shape
        )

    return of_vectors


class _Product:
    """The gradients of one matmul whose operands have at least two dimensions each."""

    def __init__(self, op: Operator, rank_x: int, rank_y: int) -> None:
        self.alpha = op.attr("alpha")
        self.rank_y = rank_y
        self.turn_x, self.turn_y = op.attr("transpose_X") and rank_x > 1, op.attr("transpose_Y") and rank_y > 1
        self.wants_x, self.wants_y = bool(op.output("X@GRAD")), bool(op.output("Y@GRAD"))

    def grads(self, x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, shape_x: torch.Size) -> object:
        """The gradients that are wanted, that of X shaped as `shape_x`, that of a vector Y without its column."""
        if self.alpha != 1:
            grad = grad * self.alpha
        found = []
        if self.wants_x:
            right = y if self.turn_y else y.mT
            of_x = torch.matmul(right.mT, grad.mT) if self.turn_x else torch.matmul(grad, right)
            found.append(of_x.sum_to_size(x.shape).reshape(shape_x))
        if self.wants_y:
            left = x if self.turn_x else x.mT
            of_y = torch.matmul(grad.mT, left.mT) if self.turn_y else torch.matmul(left, grad)
            of_y = of_y.sum_to_size(y.shape)
            found.append(of_y.squeeze(-1) if self.rank_y == 1 else of_y)
        return found[0] if len(found) == 1 else tuple(found)
