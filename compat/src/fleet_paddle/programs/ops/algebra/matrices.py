"""Matrices and vectors: products, inverses, diagonals."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.programs.variables.computed import computed

T = torch.Tensor

_BOTH: dict[str, Any] = {"inputs": ("X", "Y"), "wrt": ("X", "Y")}


@computed("cross", "cross(x, y, axis=None, name)", {"axis": None}, **_BOTH)
def _cross(x: T, y: T, axis: int | None) -> Any:
    """The cross product along a dimension of size 3, the first such unless given."""
    place = next((one for one, size in enumerate(x.shape) if size == 3), None) if axis is None else axis
    if place is None:
        raise UsageError(f"cross: x must have a dimension of size 3, got shape {list(x.shape)}")
    return torch.linalg.cross(x, y, dim=place)


@computed("kron", "kron(x, y, name)", **_BOTH)
def _kron(x: T, y: T) -> T:
    """The Kronecker product."""
    return torch.kron(x, y)


@computed("cholesky", "cholesky(x, upper=False, name)", {"upper": False})
def _cholesky(x: T, upper: bool) -> Any:
    """A triangular matrix whose product with its transpose is `x`."""
    return torch.linalg.cholesky(x, upper=upper)


@computed("inverse", "inverse(x, name)")
def _inverse(x: T) -> Any:
    """The inverse of a matrix, or of each of a batch."""
    return torch.linalg.inv(x)


@computed("trace", "trace(x, offset=0, axis1=0, axis2=1, name)", {"offset": 0, "axis1": 0, "axis2": 1})
def _trace(x: T, offset: int, axis1: int, axis2: int) -> T:
    """The sum of a diagonal."""
    return torch.diagonal(x, offset, axis1, axis2).sum(-1)


@computed(
    "diag_v2",
    "diag(x, offset=0, padding_value=0, name)",
    {"offset": 0, "padding_value": 0.0},
    v1="diag(diagonal)",
    kind="diag",
)
def _diag(x: T, offset: int = 0, padding_value: float = 0.0) -> T:
    """A matrix with the diagonal `x`, and `padding_value` elsewhere; of a matrix, its diagonal."""
    made = torch.diag(x, offset)
    if x.dim() == 1 and padding_value:
        made = torch.where(torch.diag(torch.ones_like(x, dtype=torch.bool), offset), made, padding_value)
    return made


@computed(
    "diag_embed",
    "F.diag_embed(input, offset=0, dim1=-2, dim2=-1)",
    {"offset": 0, "dim1": -2, "dim2": -1},
    inputs=("Input",),
    wrt=("Input",),
)
def _diag_embed(input: T, offset: int, dim1: int, dim2: int) -> T:
    """Matrices with the last dimension on a diagonal."""
    return torch.diag_embed(torch.as_tensor(input), offset, dim1, dim2)


@computed(
    "bilinear",
    "F.bilinear(x1, x2, weight, bias=None, name)",
    inputs=("X", "Y", "Weight", "Bias?"),
    wrt=("X", "Y", "Weight", "Bias"),
)
def _bilinear(x1: T, x2: T, weight: T, bias: T | None) -> T:
    """x1 times each matrix of weight, which is [out, in1, in2], times x2, plus bias."""
    made = torch.einsum("bi,oij,bj->bo", x1, weight, x2)
    return made if bias is None else made + bias


@computed("flatten_contiguous_range", attrs={"start_axis": 0, "stop_axis": -1})
def _flatten(x: T, start_axis: int, stop_axis: int) -> T:
    """The dimensions from one to another as one, where more than one size is for a batch to decide."""
    return torch.flatten(x, start_axis, stop_axis)


@computed("meshgrid", inputs=("X*",), outputs=("Out*",))
def _meshgrid(several: list[T]) -> Any:
    """Of several vectors the tensors of their values at every combination of places."""
    return tuple(one.clone() for one in torch.meshgrid(*several, indexing="ij"))


@computed("einsum", attrs={"equation": ""}, inputs=("Operands*",), wrt=("Operands",))
def _einsum(operands: list[T], equation: str) -> T:
    """Products of elements, added up over letters that the result does not have."""
    return torch.einsum(equation, *operands)
