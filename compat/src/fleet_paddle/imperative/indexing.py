"""Indexing and arithmetic as scripts of imperative Paddle write them, where torch's operators say no or mean another.

An operator asks here only after torch's own has refused, or has given float64, which its left side may not be, so that
what both know alike costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

WIDE = torch.float64
"""What becomes of a float beside an array's values."""

_PLAIN = torch.Tensor
_WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def item_of(base: Callable[[Any, Any], Any], tensor: torch.Tensor, index: Any, refusal: Exception) -> Any:
    """`tensor[index]` after torch refused it: of a number, which is read as if of shape [1], or with steps back."""
    if torch.Tensor.dim(tensor) == 0:
        return base(torch.Tensor.reshape(tensor, (1,)), index)
    forward, turned = _forward(tensor, index, refusal)
    return torch.flip(base(tensor, forward), turned)


def by_numbers(index: Any) -> Any:
    """An index whose whole numbers of shape [1] are numbers, as Paddle has them, such as `x[i]` for `i = argmax(y)`."""
    if isinstance(index, tuple):
        return tuple([by_numbers(one) if isinstance(one, _PLAIN) else one for one in index])
    if torch.Tensor.numel(index) == 1 and torch.Tensor.dim(index) == 1 and index.dtype in _WHOLE:
        return torch.Tensor.reshape(index, ())
    return index


def put(tensor: torch.Tensor, index: Any, value: Any, refusal: Exception) -> None:
    """`tensor[index] = value` after torch refused it: with steps back."""
    forward, turned = _forward(tensor, index, refusal)
    part = torch.Tensor.__getitem__(tensor, forward)
    given = torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device)
    part.copy_(torch.flip(torch.broadcast_to(given, torch.Tensor.size(part)), turned))


def _forward(tensor: torch.Tensor, index: Any, refusal: Exception) -> tuple[tuple[Any, ...], list[int]]:
    """An index with steps back as one with steps forward, and the dimensions of its result that are then turned round.

    The refusal is raised if there are no steps back, or lists or tensors beside them.
    """
    several = list(index) if isinstance(index, tuple) else [index]
    has_back = any(isinstance(one, slice) and (one.step or 1) < 0 for one in several)
    if not has_back or not all(
        one is None or one is ... or isinstance(one, slice | int | np.integer) for one in several
    ):
        raise refusal
    missing = torch.Tensor.dim(tensor) - sum(one is not None and one is not ... for one in several)
    if missing < 0 or sum(one is ... for one in several) > 1:
        raise refusal
    if ... in several:
        place = several.index(...)
        several[place : place + 1] = [slice(None)] * missing
    turned: list[int] = []
    dimension = result = 0
    for place, one in enumerate(several):
        if isinstance(one, slice) and (one.step or 1) < 0:
            several[place] = _reversed(one, torch.Tensor.size(tensor, dimension))
            turned.append(result)
        dimension += one is not None
        result += one is None or isinstance(one, slice)
    return tuple(several), turned


def _reversed(one: slice, length: int) -> slice:
    """A slice with a step back as one forward, whose entries are then in reverse."""
    start, stop, step = one.indices(length)
    count = len(range(start, stop, step))
    return slice(start + (count - 1) * step, start + 1, -step) if count else slice(0, 0)


def assigned(tensor: torch.Tensor, value: Any) -> Any:
    """What `tensor[index] = value` puts there, with lists and arrays as tensors of the same type."""
    if isinstance(value, list | tuple | np.ndarray | np.generic):
        return torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device)
    return value


def beside(tensor: torch.Tensor, other: Any) -> Any:
    """The other side of an operator that torch refused: an array as a tensor, of the same type if both are floats."""
    made = torch.as_tensor(other, device=tensor.device)
    return made.to(tensor.dtype) if {made.dtype, tensor.dtype} <= _FLOATS else made


def settled(made: torch.Tensor, left: torch.Tensor, right: Any) -> torch.Tensor:
    """A result that is float64 because the right side is, with the type of the left one, if that is a lesser float."""
    if isinstance(right, _PLAIN) and right.dtype is WIDE and left.dtype is not WIDE and left.dtype in _FLOATS:
        return torch.Tensor.to(made, left.dtype)
    return made
