"""`paddle.linalg` of 2.1 and 2.2, for tensors and for variables of programs."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.programs.ops.algebra import linalg as ops
from fleet_paddle.programs.variables.computed import add
from fleet_paddle.programs.variables.missing import not_built
from fleet_paddle.variables import has_variable
from fleet_programs.definition.registry import Kernel

__all__ = [
    "cholesky_solve",
    "cond",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "triangular_solve",
]


def svd(x: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Any, Any, Any]:
    """(u, s, vh) with u * s @ vh = x; u and vh are square if `full_matrices`."""
    made: tuple[Any, Any, Any] = _made("svd", ops.svd, {"X": x}, {"full_matrices": full_matrices}, name)
    return made


def qr(x: Any, mode: str = "reduced", name: str | None = None) -> Any:
    """(q, r) with q @ r = x: q is square if mode is "complete"; r alone if it is "r"."""
    if mode not in ("reduced", "complete", "r"):
        raise UsageError(f"qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    q, r = _made("qr", ops.qr, {"X": x}, {"mode": "reduced" if mode == "r" else mode}, name)
    return r if mode == "r" else (q, r)


def eigh(x: Any, UPLO: str = "L", name: str | None = None) -> tuple[Any, Any]:  # noqa: N803 - as scripts call it
    """Eigenvalues, rising, and eigenvectors of symmetric matrices, of which the triangle L or U is read."""
    made: tuple[Any, Any] = _made("eigh", ops.eigh, {"X": x}, {"UPLO": _triangle("eigh", UPLO)}, name)
    return made


def eigvalsh(x: Any, UPLO: str = "L", name: str | None = None) -> Any:  # noqa: N803 - as scripts call it
    """Eigenvalues of symmetric matrices, rising."""
    return _made("eigvalsh", ops.eigvalsh, {"X": x}, {"UPLO": _triangle("eigvalsh", UPLO)}, name)


def eig(x: Any, name: str | None = None) -> tuple[Any, Any]:  # noqa: ARG001
    """Complex eigenvalues and eigenvectors, of tensors."""
    if has_variable([x]):
        raise not_built("eig")
    values, vectors = torch.linalg.eig(x)
    return as_paddle(values), as_paddle(vectors)


def eigvals(x: Any, name: str | None = None) -> Any:  # noqa: ARG001
    """Complex eigenvalues, of tensors."""
    if has_variable([x]):
        raise not_built("eigvals")
    return as_paddle(torch.linalg.eigvals(x))


def det(x: Any, name: str | None = None) -> Any:
    """The determinant of each matrix."""
    return _made("determinant", ops.determinant, {"X": x}, {}, name)


def slogdet(x: Any, name: str | None = None) -> Any:
    """[2, ...]: the sign of each determinant, and the logarithm of its size."""
    return _made("slogdeterminant", ops.slogdeterminant, {"X": x}, {}, name)


def matrix_power(x: Any, n: int, name: str | None = None) -> Any:
    """The product of n of each matrix; of its inverse for n below 0."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise UsageError(f"matrix_power: n must be a whole number, got {n!r}")
    return _made("matrix_power", ops.matrix_power, {"X": x}, {"n": n}, name)


def matrix_rank(x: Any, tol: float | None = None, hermitian: bool = False, name: str | None = None) -> Any:
    """How many singular values are above `tol`, or above what rounding may leave."""
    limit = None if tol is None else float(tol)
    return _made("matrix_rank", ops.matrix_rank, {"X": x}, {"tol": limit, "hermitian": hermitian}, name)


def pinv(x: Any, rcond: float = 1e-15, hermitian: bool = False, name: str | None = None) -> Any:
    """The pseudo-inverse; singular values up to `rcond` times the greatest count as 0."""
    return _made("pinv", ops.pinv, {"X": x}, {"rcond": float(rcond), "hermitian": hermitian}, name)


def cond(x: Any, p: float | str | None = None, name: str | None = None) -> Any:
    """The condition number of each matrix in the norm `p`: "fro", "nuc", 1, -1, 2, -2, inf, -inf; None is 2."""
    if p not in (None, "fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")):
        raise UsageError(f"cond: p must be None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {p!r}")
    return _made("matrix_cond", ops.matrix_cond, {"X": x}, {"p": "" if p is None else str(p)}, name)


def solve(x: Any, y: Any, name: str | None = None) -> Any:
    """z with x @ z = y, a matrix or a vector."""
    return _made("solve", ops.solve, {"X": x, "Y": y}, {}, name)


def triangular_solve(
    x: Any,
    y: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    name: str | None = None,
) -> Any:
    """z with x @ z = y, where x is triangular, or with its transpose in its place."""
    attrs = {"upper": upper, "transpose": transpose, "unitriangular": unitriangular}
    return _made("triangular_solve", ops.triangular_solve, {"X": x, "Y": y}, attrs, name)


def cholesky_solve(x: Any, y: Any, upper: bool = False, name: str | None = None) -> Any:
    """z with a @ z = x, where y is the triangular factor of a that `cholesky` gives."""
    return _made("cholesky_solve", ops.cholesky_solve, {"X": x, "Y": y}, {"upper": upper}, name)


def _made(type: str, function: Kernel, inputs: dict[str, Any], attrs: dict[str, Any], name: str | None) -> Any:
    """What the function makes of tensors, or the operator's results in a program."""
    if has_variable(list(inputs.values())):
        return add(type, inputs, attrs, name)
    made = function(*inputs.values(), **attrs)
    return tuple(as_paddle(one) for one in made) if isinstance(made, tuple) else as_paddle(made)


def _triangle(what: str, given: str) -> str:
    if given not in ("L", "U"):
        raise UsageError(f"{what}: UPLO must be 'L' or 'U', got {given!r}")
    return given
