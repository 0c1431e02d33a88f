"""Matrices and vectors."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "addmm",
    "cholesky",
    "cross",
    "diag",
    "dist",
    "dot",
    "inverse",
    "kron",
    "mv",
    "trace",
    "tril",
    "triu",
]


def mv(x: torch.Tensor, vec: torch.Tensor, name: str | None = None) -> Tensor:
    """A matrix times a vector."""
    return own(torch.mv(x, vec))


def addmm(
    input: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    beta: float = 1.0,
    alpha: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """beta * input + alpha * x @ y."""
    return own(torch.addmm(input, x, y, beta=beta, alpha=alpha))


def dot(x: torch.Tensor, y: torch.Tensor, name: str | None = None) -> Tensor:
    """The sum of products of two vectors; of two matrices row by row."""
    return own(torch.dot(x, y) if x.dim() == 1 else torch.sum(x * y, -1, keepdim=True))


def cross(x: torch.Tensor, y: torch.Tensor, axis: int | None = None, name: str | None = None) -> Tensor:
    """The cross product along a dimension of size 3, the first such unless given."""
    place = next((one for one, size in enumerate(x.shape) if size == 3), None) if axis is None else axis
    if place is None:
        raise UsageError(f"cross: x must have a dimension of size 3, got shape {list(x.shape)}")
    made: torch.Tensor = torch.linalg.cross(x, y, dim=place)
    return own(made)


def dist(x: torch.Tensor, y: torch.Tensor, p: float = 2) -> Tensor:
    """The `p`-norm of the difference."""
    return own(torch.dist(x, y, p))


def kron(x: torch.Tensor, y: torch.Tensor, name: str | None = None) -> Tensor:
    """The Kronecker product."""
    return own(torch.kron(x, y))


def cholesky(x: torch.Tensor, upper: bool = False, name: str | None = None) -> Tensor:
    """A triangular matrix whose product with its transpose is `x`."""
    made: torch.Tensor = torch.linalg.cholesky(x, upper=upper)
    return own(made)


def inverse(x: torch.Tensor, name: str | None = None) -> Tensor:
    """The inverse of a matrix, or of each of a batch."""
    made: torch.Tensor = torch.linalg.inv(x)
    return own(made)


def trace(x: torch.Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Tensor:
    """The sum of a diagonal."""
    return own(torch.diagonal(x, offset, axis1, axis2).sum(-1))


def diag(x: torch.Tensor, offset: int = 0, padding_value: Any = 0, name: str | None = None) -> Tensor:
    """A matrix with the diagonal `x`, and `padding_value` elsewhere; of a matrix, its diagonal."""
    made = torch.diag(x, offset)
    if x.dim() == 1 and padding_value:
        made = torch.where(torch.diag(torch.ones_like(x, dtype=torch.bool), offset), made, padding_value)
    return own(made)


def tril(x: torch.Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """What is on and below a diagonal, zeros above."""
    return own(torch.tril(x, diagonal))


def triu(x: torch.Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """What is on and above a diagonal, zeros below."""
    return own(torch.triu(x, diagonal))
