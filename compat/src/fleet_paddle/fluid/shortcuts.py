"""Layers that scripts call most, straight by torch: the usual cases. None means that this is another case.

Each takes what the layer of its name takes, and gives None before it computes anything: an error is an error. They are
there for speed alone: without them the operators would do it.
"""
# ruff: noqa: ARG001  (arguments and names are those of the layers)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_programs.definition.dtypes import canonical, torch_dtype
from fleet_programs.expressions.spelling import Spelling
from fleet_programs.operators import definitions

Maybe = Tensor | None

_NUMBERS: Any = int | float | np.number | torch.Tensor

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _shortcut(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    return function


_MADE = "made = function({})\nmade.__class__ = Tensor\nreturn made"
_DIFFERS = "if axis != -1 or act is not None or x.dtype is not y.dtype{}:\n    return None\n"


def _from_rows() -> None:
    """Functions of each element without settings, and of two operands of one type that end together.

    Quotients are those of floats: others are for the layer to refuse.
    """
    for definition in definitions():
        for calls in definition.calls:
            if not calls.v1 or calls.torch is None:
                continue
            spelling = Spelling.parse(calls.v1)
            if {*spelling.names, *Spelling.parse(calls.v2 or calls.v1).names} <= {"x", "name"}:
                body = _MADE.format("x")
            elif definition.type in _SUMS and not calls.v2:
                body = _DIFFERS.format(_SUMS[definition.type]) + _MADE.format("x, y")
            else:
                continue
            scope = {"function": calls.torch, "Tensor": Tensor}
            FUNCTIONS[spelling.name] = spelling.function(body, scope, calls.doc, __name__)


_SUMS = {f"elementwise_{name}": "" for name in ("add", "sub", "mul")}
_SUMS["elementwise_div"] = " or not x.is_floating_point()"
_from_rows()


@_shortcut
def scale(
    x: torch.Tensor,
    scale: Any = 1.0,
    bias: Any = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Maybe:
    """A factor that is a tensor, as a schedule has it, is a factor."""
    if act is not None or not x.is_floating_point():
        return None
    if not isinstance(scale, _NUMBERS) or not isinstance(bias, _NUMBERS):
        return None
    made: Any = torch.mul(x, scale) if bias_after_scale else torch.mul(torch.add(x, bias), scale)
    return as_paddle(made if not bias_after_scale or not bias else torch.add(made, bias))


@_shortcut
def cast(x: torch.Tensor, dtype: Any) -> Maybe:
    """A tensor of its own, even if it has the type already."""
    wanted = torch_dtype(canonical(dtype))
    return None if wanted is x.dtype else as_paddle(_TO(x, wanted))


@_shortcut
def mean(x: torch.Tensor, name: str | None = None) -> Maybe:
    """Of shape [1], as every number of version 1.8."""
    return as_paddle(torch.mean(x).view(1))


@_shortcut
def matmul(
    x: torch.Tensor,
    y: torch.Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Maybe:
    """Matrices, and batches of them."""
    if alpha != 1.0 or x.dim() < 2 or y.dim() < 2:
        return None
    return as_paddle(torch.matmul(x.mT if transpose_x else x, y.mT if transpose_y else y))


@_shortcut
def reshape(
    x: torch.Tensor,
    shape: Any,
    actual_shape: Any = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Maybe:
    """Sizes may be tensors; 0 is the size that the dimension has."""
    if actual_shape is not None or act is not None or getattr(shape, "ndim", 1) != 1:
        return None
    sizes = [int(one) for one in shape]
    if 0 in sizes:
        sizes = [x.size(place) if size == 0 else size for place, size in enumerate(sizes)]
    return as_paddle(torch.reshape(x, sizes)) if sizes else None


@_shortcut
def transpose(x: torch.Tensor, perm: Any, name: str | None = None) -> Maybe:
    """Dimensions in another order."""
    return as_paddle(torch.permute(x, [int(one) for one in perm]))


@_shortcut
def concat(input: Any, axis: int = 0, name: str | None = None) -> Maybe:
    """Several tensors of one type."""
    if not isinstance(input, list | tuple) or any(one.dtype is not input[0].dtype for one in input):
        return None
    return as_paddle(torch.cat(list(input), int(axis)))


@_shortcut
def softmax(input: torch.Tensor, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Maybe:
    """Along a dimension."""
    return as_paddle(torch.softmax(input, axis)) if type(axis) is int else None


@_shortcut
def softmax_with_cross_entropy(
    logits: torch.Tensor,
    label: torch.Tensor,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Maybe:
    """Rows of scores, and a class for each."""
    if soft_label or return_softmax or axis not in (-1, 1) or logits.dim() != 2 or label.dtype is not torch.int64:
        return None
    if label.dim() != 2 or label.shape[1] != 1:
        return None
    logs = torch.log_softmax(logits, 1)
    return as_paddle(F.nll_loss(logs, label.view(-1), None, None, ignore_index, None, "none").view(-1, 1))


def _reduction(name: str, function: Any) -> None:
    """Over some dimensions, or over all to [1]."""

    def call(input: torch.Tensor, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Maybe:
        return _reduced(function, input, dim, keep_dim)

    FUNCTIONS[name] = call


_reduction("reduce_sum", torch.sum)
_reduction("reduce_mean", torch.mean)


def _reduced(function: Any, x: torch.Tensor, dim: Any, keep_dim: bool) -> Maybe:
    if not x.is_floating_point() or not (dim is None or _are_places(dim, x.dim())):
        return None
    if dim is None and not keep_dim:
        whole: torch.Tensor = function(x).view(1)
        return as_paddle(whole)
    made: torch.Tensor = function(x, list(range(x.dim())) if dim is None else dim, bool(keep_dim))
    return as_paddle(made if made.dim() else made.view(1))


def _are_places(dim: Any, rank: int) -> bool:
    """Whether this is a dimension, or several that differ, as torch wants them."""
    if type(dim) is int:
        return True
    if not isinstance(dim, list | tuple) or not rank or any(type(one) is not int for one in dim):
        return False
    return len({one % rank for one in dim}) == len(dim)


_TO: Any = torch.Tensor.to
