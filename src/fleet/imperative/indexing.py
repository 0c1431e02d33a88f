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
_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def item_of(base: Callable[[Any, Any], Any], tensor: torch.Tensor, index: Any, refusal: Exception) -> Any:
    """`tensor[index]` after torch refused it: of a number, which is read as if of shape [1], or with steps back."""
    if torch.Tensor.dim(tensor) == 0:
        return base(torch.Tensor.reshape(tensor, (1,)), index)
    several = list(index) if isinstance(index, tuple) else [index]
    back = [place for place, one in enumerate(several) if isinstance(one, slice) and (one.step or 1) < 0]
    if not back or not all(isinstance(one, slice | int) for one in several):
        raise refusal
    for place in back:
        forward, several[place] = _reversed(several[place], torch.Tensor.size(tensor, place))
        tensor = torch.flip(base(tensor, (*[slice(None)] * place, forward)), (place,))
    return base(tensor, tuple(several))


def _reversed(one: slice, length: int) -> tuple[slice, slice]:
    """A slice with a step back as one forward whose entries are then turned round; and what is left to take then."""
    start, stop, step = one.indices(length)
    count = len(range(start, stop, step))
    last = start + (count - 1) * step
    return (slice(last, start + 1, -step) if count else slice(0, 0)), slice(None)


def assigned(tensor: torch.Tensor, value: Any) -> Any:
    """What `tensor[index] = value` puts there, with arrays as tensors of the same type."""
    return torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device) if isinstance(value, np.ndarray) else value


def beside(tensor: torch.Tensor, other: Any) -> Any:
    """The other side of an operator that torch refused: an array as a tensor, of the same type if both are floats."""
    made = torch.as_tensor(other, device=tensor.device)
    return made.to(tensor.dtype) if {made.dtype, tensor.dtype} <= _FLOATS else made


def settled(made: torch.Tensor, left: torch.Tensor, right: Any) -> torch.Tensor:
    """A result that is float64 because the right side is, with the type of the left one, if that is a lesser float."""
    if isinstance(right, _PLAIN) and right.dtype is WIDE and left.dtype is not WIDE and left.dtype in _FLOATS:
        return torch.Tensor.to(made, left.dtype)
    return made
