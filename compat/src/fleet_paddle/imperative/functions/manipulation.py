"""The same values in another shape, order or number."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import dtype_of, sizes
from fleet_paddle.imperative.functions.reduction import Axis, axes_of
from fleet_paddle.imperative.tensor import Tensor, fresh, own

__all__ = [
    "broadcast_shape",
    "broadcast_to",
    "cast",
    "chunk",
    "concat",
    "expand",
    "expand_as",
    "flatten",
    "flatten_",
    "flip",
    "reshape",
    "reshape_",
    "roll",
    "split",
    "squeeze",
    "squeeze_",
    "stack",
    "t",
    "tile",
    "transpose",
    "unbind",
    "unsqueeze",
    "unsqueeze_",
    "unstack",
]


def cast(x: torch.Tensor, dtype: Any) -> Tensor:
    """The values as another type."""
    return fresh(x.to(dtype_of(dtype)), x)


def concat(x: Sequence[torch.Tensor], axis: Any = 0, name: str | None = None) -> Tensor:
    """Tensors one after the other along a dimension; a number counts as a tensor of shape [1]."""
    given: list[Any] = list(x)  # what is no tensor is for torch.cat to name
    several = [torch.reshape(one, (1,)) if isinstance(one, torch.Tensor) and one.dim() == 0 else one for one in given]
    return own(torch.cat(several, int(axis)))


def stack(x: Sequence[torch.Tensor], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors side by side along a new dimension."""
    return own(torch.stack(list(x), axis))


def split(
    x: torch.Tensor, num_or_sections: int | Sequence[int], axis: Any = 0, name: str | None = None
) -> list[Tensor]:
    """As many equal parts, or parts of these sizes, one of which may be -1 for the rest."""
    axis = int(axis)
    length = _SIZE(x, axis)
    if isinstance(num_or_sections, int):
        if num_or_sections < 1 or length % num_or_sections:
            raise UsageError(f"split: {num_or_sections} does not divide {length}, the size of dimension {axis}")
        parts: Any = length // num_or_sections
    else:
        parts = [int(one) for one in num_or_sections]
        known = builtins.sum(one for one in parts if one >= 0)
        parts = [length - known if one < 0 else one for one in parts]
    return [own(part) for part in _SPLIT(x, parts, axis)]


def chunk(x: torch.Tensor, chunks: int, axis: Any = 0, name: str | None = None) -> list[Tensor]:
    """As many equal parts."""
    return split(x, chunks, axis)


def unbind(input: torch.Tensor, axis: int = 0) -> list[Tensor]:
    """The entries along a dimension."""
    return [own(one) for one in torch.unbind(input, axis)]


def unstack(x: torch.Tensor, axis: int = 0, num: int | None = None) -> list[Tensor]:
    """The entries along a dimension; `num` is how many there are, where a script says so."""
    made = unbind(x, axis)
    if num is not None and num != len(made):
        raise UsageError(f"unstack: num must be {len(made)}, the size of dimension {axis}, got {num}")
    return made


def reshape(x: torch.Tensor, shape: Any, name: str | None = None) -> Tensor:
    """The same values in another shape: -1 is what is left, 0 is the size that the dimension has."""
    plain = type(shape) is list and 0 not in shape  # nearly always, and half the time of the other way
    return own(torch.reshape(x, shape if plain else _filled(x, shape)))


def transpose(x: torch.Tensor, perm: Sequence[int], name: str | None = None) -> Tensor:
    """The dimensions in another order."""
    return own(torch.permute(x, tuple(perm)))


def t(input: torch.Tensor, name: str | None = None) -> Tensor:
    """A matrix with rows as columns; a vector stays."""
    return own(torch.t(input))


def flatten(x: torch.Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Tensor:
    """The dimensions from one to another as one."""
    return fresh(torch.flatten(x, start_axis, stop_axis), x)


def squeeze(x: torch.Tensor, axis: Axis = None, name: str | None = None) -> Tensor:
    """Without dimensions of size 1: all, or those given."""
    return own(torch.squeeze(x) if axis is None else torch.squeeze(x, axes_of(axis)))


def unsqueeze(x: torch.Tensor, axis: Any, name: str | None = None) -> Tensor:
    """With new dimensions of size 1, put in one after the other."""
    places = axes_of(axis.tolist() if isinstance(axis, torch.Tensor) else axis)
    for one in (places,) if isinstance(places, int) else places:
        x = torch.unsqueeze(x, one)
    return own(x)


def reshape_(x: torch.Tensor, shape: Any, name: str | None = None) -> Tensor:
    """`reshape`, in place."""
    return _become(x, x.view(_filled(x, shape)))


def flatten_(x: torch.Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Tensor:
    """`flatten`, in place."""
    return _become(x, torch.flatten(x, start_axis, stop_axis))


def squeeze_(x: torch.Tensor, axis: Axis = None, name: str | None = None) -> Tensor:
    """`squeeze`, in place."""
    return _become(x, squeeze(x, axis))


def unsqueeze_(x: torch.Tensor, axis: Any, name: str | None = None) -> Tensor:
    """`unsqueeze`, in place."""
    return _become(x, unsqueeze(x, axis))


def tile(x: torch.Tensor, repeat_times: Any, name: str | None = None) -> Tensor:
    """As many copies along each dimension."""
    return own(torch.tile(x, sizes(repeat_times)))


def expand(x: torch.Tensor, shape: Any, name: str | None = None) -> Tensor:
    """As if copied along dimensions of size 1; -1 keeps a size."""
    made: torch.Tensor = _EXPAND(x, sizes(shape))
    return own(made)


broadcast_to = expand


def expand_as(x: torch.Tensor, y: torch.Tensor, name: str | None = None) -> Tensor:
    """As if copied along dimensions of size 1, into the shape of `y`."""
    return expand(x, tuple(y.shape))


def broadcast_shape(x_shape: Sequence[int], y_shape: Sequence[int]) -> list[int]:
    """The shape that arithmetic of tensors of these two shapes gives."""
    return list(torch.broadcast_shapes(tuple(x_shape), tuple(y_shape)))


def flip(x: torch.Tensor, axis: int | Sequence[int], name: str | None = None) -> Tensor:
    """The entries along these dimensions in reverse."""
    return own(torch.flip(x, (axis,) if isinstance(axis, int) else tuple(axis)))


def roll(x: torch.Tensor, shifts: Any, axis: Axis = None, name: str | None = None) -> Tensor:
    """The entries further by `shifts`, those from the end at the start; without `axis` as if in one row."""
    return own(torch.roll(x, axes_of(shifts), () if axis is None else axes_of(axis)))


def _filled(x: torch.Tensor, shape: Any) -> list[int]:
    return [_SIZE(x, place) if size == 0 else size for place, size in enumerate(sizes(shape))]


def _become(x: torch.Tensor, view: torch.Tensor) -> Tensor:
    """Give `x` the shape of a view of it."""
    return own(x.as_strided_(tuple(view.shape), view.stride(), view.storage_offset()))


_SPLIT: Any = torch.Tensor.split
_SIZE: Any = torch.Tensor.size
_EXPAND: Any = torch.Tensor.expand
