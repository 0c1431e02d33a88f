"""Rows of functions of matrices and vectors that are no single operator."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.rows.function import function
from fleet_paddle.rows.operators import on_variables
from fleet_paddle.rows.tensors.making import filled_like
from fleet_paddle.rows.tensors.picking import where_of
from fleet_programs import layers
from fleet_programs.program.variable import Variable


def _dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.dot(x, y) if x.dim() == 1 else torch.sum(x * y, -1, keepdim=True)


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
    function("dist(x, y, p=2)", "The `p`-norm of the difference.", torch.dist, _dist, num_operands=2),
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
