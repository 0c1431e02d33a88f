"""Rows of functions of matrices and vectors that are no single operator."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.variable import Variable
from fleet_paddle.rows.function import function
from fleet_paddle.rows.making import filled_like
from fleet_paddle.rows.operators import on_variables
from fleet_paddle.rows.picking import where_of


def _dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.dot(x, y) if x.dim() == 1 else torch.sum(x * y, -1, keepdim=True)


def _cross(x: torch.Tensor, y: torch.Tensor, axis: int | None) -> Any:
    place = next((one for one, size in enumerate(x.shape) if size == 3), None) if axis is None else axis
    if place is None:
        raise UsageError(f"cross: x must have a dimension of size 3, got shape {list(x.shape)}")
    return torch.linalg.cross(x, y, dim=place)


def _trace(x: Variable, offset: int, axis1: int, axis2: int, name: str | None) -> Variable:
    if (offset, axis1, axis2) != (0, 0, 1) or x.ndim != 2 or -1 in x.shape:
        raise NotSupportedError(
            f"trace: a variable must be a matrix of known sizes, and its diagonal the main one; got {x}"
        )
    return layers.reduce_sum(_on_diagonal(x), name=name)


def _on_diagonal(x: Variable) -> Variable:
    return layers.elementwise_mul(x, layers.eye(x.shape[0], x.shape[1], dtype=x.dtype))


def _diag(x: torch.Tensor, offset: int, padding_value: Any) -> torch.Tensor:
    made = torch.diag(x, offset)
    if x.dim() == 1 and padding_value:
        made = torch.where(torch.diag(torch.ones_like(x, dtype=torch.bool), offset), made, padding_value)
    return made


def _diag_of(x: Variable, offset: int, padding_value: float, name: str | None) -> Variable:
    if offset or padding_value:
        raise NotSupportedError("diag: offset and padding_value must be 0 for a variable")
    if x.ndim == 2:
        return layers.reduce_sum(_on_diagonal(x), 1, name=name)
    return layers.elementwise_mul(layers.eye(x.shape[0], dtype=x.dtype), x, name=name)


def _dist(x: Variable, y: Variable, p: float) -> Any:
    return _norm(x - y, p, None, False, None)


_norm = on_variables("norm")


def _beyond(x: Variable) -> Variable:
    """How many columns each element is to the right of the diagonal, whatever sizes the batch brings."""
    if x.ndim < 2:
        raise UsageError(f"tril, triu: input must be matrices, got shape {list(x.shape)}")
    ones = filled_like(x, 1, "float32")
    return layers.cumsum(ones, -1) - layers.cumsum(ones, -2)


FUNCTIONS = [
    function(
        "mv(x, vec, name)",
        "A matrix times a vector.",
        torch.mv,
        lambda x, vec, name: layers.matmul(x, vec, name=name),
        num_operands=2,
    ),
    function(
        "addmm(input, x, y, beta=1.0, alpha=1.0, name)",
        "beta * input + alpha * x @ y.",
        lambda input, x, y, beta, alpha: torch.addmm(input, x, y, beta=beta, alpha=alpha),
        lambda input, x, y, beta, alpha, name: layers.elementwise_add(
            layers.scale(layers.matmul(x, y), alpha), layers.scale(input, beta), name=name
        ),
        num_operands=3,
    ),
    function(
        "dot(x, y, name)",
        "The sum of products of two vectors; of two matrices row by row.",
        _dot,
        lambda x, y, name: layers.reduce_sum(layers.elementwise_mul(x, y), -1, x.ndim > 1, name),
        num_operands=2,
    ),
    function(
        "cross(x, y, axis=None, name)",
        "The cross product along a dimension of size 3, the first such unless given.",
        _cross,
        None,
        num_operands=2,
    ),
    function("dist(x, y, p=2)", "The `p`-norm of the difference.", torch.dist, _dist, num_operands=2),
    function("kron(x, y, name)", "The Kronecker product.", torch.kron, None, num_operands=2),
    function(
        "cholesky(x, upper=False, name)",
        "A triangular matrix whose product with its transpose is `x`.",
        lambda x, upper: torch.linalg.cholesky(x, upper=upper),
        None,
    ),
    function("inverse(x, name)", "The inverse of a matrix, or of each of a batch.", torch.linalg.inv, None),
    function(
        "trace(x, offset=0, axis1=0, axis2=1, name)",
        "The sum of a diagonal.",
        lambda x, offset, axis1, axis2: torch.diagonal(x, offset, axis1, axis2).sum(-1),
        _trace,
    ),
    function(
        "diag(x, offset=0, padding_value=0, name)",
        "A matrix with the diagonal `x`, and `padding_value` elsewhere; of a matrix, its diagonal.",
        _diag,
        _diag_of,
    ),
    function(
        "tril(x, diagonal=0, name)",
        "What is on and below a diagonal, zeros above.",
        torch.tril,
        lambda x, diagonal, name: where_of(_beyond(x) <= float(diagonal), x, 0, name),
    ),
    function(
        "triu(x, diagonal=0, name)",
        "What is on and above a diagonal, zeros below.",
        torch.triu,
        lambda x, diagonal, name: where_of(_beyond(x) >= float(diagonal), x, 0, name),
    ),
]
