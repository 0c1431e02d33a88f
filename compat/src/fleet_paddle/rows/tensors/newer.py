"""Rows of functions that 2.1 and 2.2 added, on tensors alone; others are operators of `programs.ops.values.newer`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.rows.function import Function, function

T = torch.Tensor


def _of_one(name: str, doc: str) -> Function:
    return function(f"{name}(x, name)", doc, getattr(torch, name), None)


def _of_bits(name: str, doc: str) -> Function:
    def compute(x: T, y: T, out: T | None) -> T:
        made: T = getattr(torch, name)(x, y)
        return made if out is None else out.copy_(made)

    return function(f"{name}(x, y, out=None, name)", doc, compute, None, num_operands=2)


def _not(x: T, out: T | None) -> T:
    made = torch.bitwise_not(x)
    return made if out is None else out.copy_(made)


def _differences(x: T, n: int, axis: int, prepend: T | None, append: T | None) -> T:
    return torch.diff(x, n, axis, prepend=prepend, append=append)


def _products(x: T, dim: int | None, dtype: Any) -> T:
    kind = None if dtype is None else dtype_of(dtype)
    return torch.cumprod(x.reshape(-1) if dim is None else x, 0 if dim is None else dim, dtype=kind)


def _kth(x: T, k: int, axis: int | None, keepdim: bool) -> tuple[T, T]:
    values, places = torch.kthvalue(x, k, -1 if axis is None else axis, keepdim)
    return values, places


def _most_frequent(x: T, axis: int, keepdim: bool) -> tuple[T, T]:
    values, places = torch.mode(x, axis, keepdim)
    return values, places


def _searched(sorted_sequence: T, values: T, out_int32: bool, right: bool) -> T:
    return torch.searchsorted(sorted_sequence, values, out_int32=out_int32, right=right)


def _repeated(x: T, repeats: Any, axis: int | None) -> T:
    times = repeats if isinstance(repeats, int) else torch.as_tensor(repeats)
    return torch.repeat_interleave(x, times, axis)


_PUT = {"add": "sum", "multiply": "prod", "mul": "prod"}


def _put(arr: T, indices: T, values: Any, axis: int, reduce: str) -> T:
    given = torch.as_tensor(values, dtype=arr.dtype, device=arr.device).expand(indices.shape)
    if reduce == "assign":
        return torch.scatter(arr, axis, indices, given)
    if reduce not in _PUT:
        raise UsageError(f"put_along_axis: reduce must be assign, add or multiply, got {reduce!r}")
    return torch.scatter_reduce(arr, axis, indices, given, _PUT[reduce])


FUNCTIONS = [
    _of_one("angle", "The angle of a complex number; of a real one 0 or pi."),
    _of_bits("bitwise_and", "Bits that both have."),
    _of_bits("bitwise_or", "Bits that either has."),
    _of_bits("bitwise_xor", "Bits that one of them has."),
    function("bitwise_not(x, out=None, name)", "Bits that it does not have.", _not, None),
    function(
        "bincount(x, weights=None, minlength=0, name)",
        "How often each whole number is there, or the sum of its weights.",
        torch.bincount,
        None,
    ),
    function("cumprod(x, dim=None, dtype=None, name)", "Products of all elements up to each.", _products, None),
    function(
        "diff(x, n=1, axis=-1, prepend=None, append=None, name)",
        "Differences of neighbours, taken `n` times.",
        _differences,
        None,
    ),
    function("is_complex(x)", "Whether its elements are complex numbers.", torch.is_complex, None, gives="Any"),
    function("is_floating_point(x)", "Whether its elements are floats.", torch.is_floating_point, None, gives="Any"),
    function(
        "is_integer(x)",
        "Whether its elements are whole numbers.",
        lambda x: not (x.dtype is torch.bool or torch.is_floating_point(x) or torch.is_complex(x)),
        None,
        gives="Any",
    ),
    function("as_complex(x, name)", "Pairs of numbers as complex ones.", torch.view_as_complex, None),
    function("as_real(x, name)", "Complex numbers as pairs.", torch.view_as_real, None),
    function(
        "kthvalue(x, k, axis=None, keepdim=False, name)",
        "The k-th smallest along a dimension, and where it is.",
        _kth,
        None,
        gives="Any",
    ),
    function("lerp(x, y, weight, name)", "x + weight * (y - x).", torch.lerp, None, num_operands=2),
    function(
        "mode(x, axis=-1, keepdim=False, name)",
        "The most frequent value along a dimension, and where it is.",
        _most_frequent,
        None,
        gives="Any",
    ),
    function("moveaxis(x, source, destination, name)", "Dimensions at other places.", torch.movedim, None),
    function("multi_dot(x, name)", "The product of several matrices.", torch.linalg.multi_dot, None, takes_list=True),
    function(
        "put_along_axis(arr, indices, values, axis, reduce='assign')",
        "Values written, added or multiplied to places along a dimension.",
        _put,
        None,
    ),
    function(
        "quantile(x, q, axis=None, keepdim=False)",
        "The value that a part `q` of the elements is below.",
        lambda x, q, axis, keepdim: torch.quantile(
            x, q if isinstance(q, float) else torch.as_tensor(q, dtype=x.dtype), axis, keepdim
        ),
        None,
    ),
    function(
        "repeat_interleave(x, repeats, axis=None, name)",
        "Each element several times over.",
        _repeated,
        None,
    ),
    function("rot90(x, k=1, axes=(0, 1), name)", "Turned by `k` right angles.", torch.rot90, None),
    function(
        "searchsorted(sorted_sequence, values, out_int32=False, right=False, name)",
        "Where values would be put in so that the sequence stays sorted.",
        _searched,
        None,
        num_operands=2,
    ),
    function(
        "tensordot(x, y, axes=2, name)",
        "Products over some dimensions of both, added up.",
        torch.tensordot,
        None,
        num_operands=2,
    ),
    function(
        "F.celu(x, alpha=1.0, name)",
        "x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere.",
        F.celu,
        None,
        "CELU",
    ),
    function(
        "F.gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name)",
        "A softmax of scores and noise: a drawn class, through which gradients flow.",
        lambda x, temperature, hard, axis: F.gumbel_softmax(x, temperature, hard, dim=axis),
        None,
    ),
    function("F.mish(x, name)", "x * tanh(softplus(x)).", F.mish, None, "Mish"),
]
