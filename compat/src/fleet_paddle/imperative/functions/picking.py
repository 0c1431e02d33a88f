"""Some of the elements: by their places, by a mask, by slices; and the way back, into places."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import sizes
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "crop",
    "gather",
    "gather_nd",
    "index_sample",
    "index_select",
    "masked_select",
    "multiplex",
    "nonzero",
    "scatter",
    "scatter_",
    "scatter_nd",
    "scatter_nd_add",
    "shard_index",
    "slice",
    "strided_slice",
    "where",
]


def gather(x: torch.Tensor, index: torch.Tensor, axis: Any = 0, name: str | None = None) -> Tensor:
    """The entries along a dimension whose places `index` has."""
    return index_select(x, index, 0 if axis is None else axis)


def index_select(x: torch.Tensor, index: torch.Tensor, axis: Any = 0, name: str | None = None) -> Tensor:
    """The entries along a dimension whose places `index` has."""
    return own(torch.index_select(x, int(axis), index.reshape(-1)))


def gather_nd(x: torch.Tensor, index: torch.Tensor, name: str | None = None) -> Tensor:
    """The parts of `x` at places of several dimensions: those in the last dimension of `index`."""
    return own(x[index.unbind(-1)])


def index_sample(x: torch.Tensor, index: torch.Tensor) -> Tensor:
    """Of each row the elements whose places the same row of `index` has."""
    return own(torch.gather(x, 1, index.long()))


def masked_select(x: torch.Tensor, mask: torch.Tensor, name: str | None = None) -> Tensor:
    """The elements where the mask is True, in one row."""
    return own(torch.masked_select(x, mask))


def nonzero(x: torch.Tensor, as_tuple: bool = False) -> Any:
    """The places of elements that are not 0, a row each; with `as_tuple` a column for each dimension."""
    places = torch.nonzero(x)
    return tuple(own(one[:, None]) for one in places.unbind(1)) if as_tuple else own(places)


def where(condition: torch.Tensor, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`x` where the condition holds, else `y`; with the condition alone, the places where it holds."""
    return own(torch.where(condition) if x is None and y is None else torch.where(condition, x, y))


def scatter(
    x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, overwrite: bool = True, name: str | None = None
) -> Tensor:
    """`x` with other rows at some places: those of `updates`, or without `overwrite` their sums."""
    places = index.reshape(-1).long()
    if overwrite:
        return own(torch.index_copy(x, 0, places, updates))
    return own(torch.index_add(torch.index_fill(x, 0, places, 0), 0, places, updates))


def scatter_(
    x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, overwrite: bool = True, name: str | None = None
) -> Tensor:
    """`scatter`, in place."""
    return own(x.copy_(scatter(x, index, updates, overwrite)))


def scatter_nd_add(x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, name: str | None = None) -> Tensor:
    """`x` with `updates` added at places of several dimensions."""
    return own(torch.index_put(x, index.long().unbind(-1), updates, accumulate=True))


def scatter_nd(index: torch.Tensor, updates: torch.Tensor, shape: Any, name: str | None = None) -> Tensor:
    """Zeros with `updates` added at places of several dimensions."""
    return scatter_nd_add(updates.new_zeros(sizes(shape)), index, updates)


def slice(
    input: torch.Tensor, axes: Sequence[int], starts: Sequence[Any], ends: Sequence[Any], name: str | None = None
) -> Tensor:
    """From `starts` up to but not including `ends` along some dimensions."""
    return strided_slice(input, axes, starts, ends, [1] * len(axes))


def strided_slice(
    x: torch.Tensor,
    axes: Sequence[int],
    starts: Sequence[Any],
    ends: Sequence[Any],
    strides: Sequence[Any],
    name: str | None = None,
) -> Tensor:
    """The same, every `strides` entries; backwards if that is below 0."""
    taken = [builtins.slice(None)] * x.dim()
    for axis, start, end, step in zip(axes, starts, ends, strides, strict=True):
        taken[axis] = builtins.slice(int(start), int(end), int(step))
    return own(own(x)[tuple(taken)])


def crop(x: torch.Tensor, shape: Any = None, offsets: Any = None, name: str | None = None) -> Tensor:
    """A part of `x`: of that shape, -1 being what is left, from the offsets on, 0 unless given."""
    begins = [0] * x.dim() if offsets is None else sizes(offsets)
    wanted = tuple(x.shape) if shape is None else sizes(shape)
    if len(begins) != x.dim() or len(wanted) != x.dim():
        raise UsageError(f"crop: shape and offsets must have {x.dim()} numbers, got {len(wanted)} and {len(begins)}")
    for place, (begin, size) in enumerate(zip(begins, wanted, strict=True)):
        x = torch.narrow(x, place, begin, x.size(place) - begin if size == -1 else size)
    return own(x)


def multiplex(inputs: Sequence[torch.Tensor], index: torch.Tensor, name: str | None = None) -> Tensor:
    """Row i of the tensor that `index` names for it."""
    places = index.reshape(-1).long()
    return own(torch.stack(list(inputs))[places, torch.arange(len(places), device=places.device)])


def shard_index(input: torch.Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Tensor:
    """Ids as places in the part that shard `shard_id` has, `ignore_value` for those of other shards."""
    if not 0 <= shard_id < nshards:
        raise UsageError(f"shard_index: shard_id must be from 0 to {nshards - 1}, got {shard_id}")
    size = -(-index_num // nshards)
    return own(torch.where(input // size == shard_id, input % size, ignore_value))
