"""Linear algebra of 2.1 and 2.2: each operator is one function of `torch.linalg`, and so is its gradient."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.programs.variables.computed import computed

T = torch.Tensor
_BOTH: dict[str, Any] = {"inputs": ("X", "Y"), "wrt": ("X", "Y")}


@computed("svd", attrs={"full_matrices": False}, outputs=("U", "S", "VH"))
def svd(x: T, full_matrices: bool) -> tuple[T, T, T]:
    """u, s and vh with u * s @ vh = x."""
    u, s, vh = torch.linalg.svd(x, full_matrices)
    return u, s, vh


@computed("qr", attrs={"mode": "reduced"}, outputs=("Q", "R"))
def qr(x: T, mode: str) -> tuple[T, T]:
    """An orthogonal and a triangular matrix with the product x."""
    q, r = torch.linalg.qr(x, mode)
    return q, r


@computed("eigh", attrs={"UPLO": "L"}, outputs=("Eigenvalues", "Eigenvectors"))
def eigh(x: T, UPLO: str) -> tuple[T, T]:  # noqa: N803 - as scripts call it
    """Eigenvalues, rising, and eigenvectors of symmetric matrices, of which one triangle is read."""
    values, vectors = torch.linalg.eigh(x, UPLO)
    return values, vectors


@computed("eigvalsh", attrs={"UPLO": "L"})
def eigvalsh(x: T, UPLO: str) -> Any:  # noqa: N803 - as scripts call it
    """Eigenvalues of symmetric matrices, rising."""
    return torch.linalg.eigvalsh(x, UPLO)


@computed("determinant")
def determinant(x: T) -> Any:
    """The determinant of each matrix."""
    return torch.linalg.det(x)


@computed("slogdeterminant")
def slogdeterminant(x: T) -> T:
    """[2, ...]: the sign of each determinant, and the logarithm of its size."""
    return torch.stack(torch.linalg.slogdet(x))


@computed("matrix_power", attrs={"n": 1})
def matrix_power(x: T, n: int) -> Any:
    """The product of n of each matrix; of its inverse for n below 0."""
    return torch.linalg.matrix_power(x, n)


@computed("matrix_rank", attrs={"tol": None, "hermitian": False}, wrt=())
def matrix_rank(x: T, tol: float | None, hermitian: bool) -> Any:
    """How many singular values are above `tol`, or above what rounding may leave."""
    if tol is None:
        return torch.linalg.matrix_rank(x, hermitian=hermitian)
    return torch.linalg.matrix_rank(x, atol=tol, rtol=0.0, hermitian=hermitian)


@computed("pinv", attrs={"rcond": 1e-15, "hermitian": False})
def pinv(x: T, rcond: float, hermitian: bool) -> Any:
    """The pseudo-inverse; singular values up to `rcond` times the greatest count as 0."""
    return torch.linalg.pinv(x, atol=0.0, rtol=rcond, hermitian=hermitian)


@computed("matrix_cond", attrs={"p": ""})
def matrix_cond(x: T, p: str) -> Any:
    """The condition number of each matrix in the norm `p`: fro, nuc, a number, or the greatest singular value."""
    return torch.linalg.cond(x, None if not p else p if p in ("fro", "nuc") else float(p))


@computed("solve", **_BOTH)
def solve(x: T, y: T) -> Any:
    """z with x @ z = y."""
    return torch.linalg.solve(x, y)


@computed("triangular_solve", attrs={"upper": True, "transpose": False, "unitriangular": False}, **_BOTH)
def triangular_solve(x: T, y: T, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    """z with x @ z = y, where x is triangular."""
    matrix = x.mT if transpose else x
    return torch.linalg.solve_triangular(matrix, y, upper=upper != transpose, unitriangular=unitriangular)


@computed("cholesky_solve", attrs={"upper": False}, **_BOTH)
def cholesky_solve(x: T, y: T, upper: bool) -> Any:
    """z with a @ z = x, where y is the triangular factor of a."""
    return torch.cholesky_solve(x, y, upper)
