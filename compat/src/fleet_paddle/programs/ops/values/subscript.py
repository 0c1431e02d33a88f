"""Parts of a variable that steps, lists and other variables name, as torch's index means them.

The attribute `key` has what stands between the brackets, each part a list that begins with its kind; `Index` are the
variables among them, and `Bounds` those that begin and end slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from fleet_paddle.programs.variables.computed import computed

T = torch.Tensor


@computed("getitem", attrs={"key": []}, inputs=("X", "Index*", "Bounds*"), values=("Bounds",))
def _getitem(x: T, indexes: list[T], bounds: list[T], key: list[list[Any]]) -> T:
    """The part of `x` that the key names."""
    parts, turned = _parts(x, indexes, bounds, key)
    made = x[parts]
    return made.flip(turned) if turned else made


@computed(
    "setitem",
    attrs={"key": []},
    inputs=("X", "Index*", "Bounds*", "Value"),
    wrt=("X", "Value"),
    values=("Bounds",),
)
def _setitem(x: T, indexes: list[T], bounds: list[T], value: T, key: list[list[Any]]) -> T:
    """`x` with `value`, repeated where it is smaller, in the part that the key names."""
    parts, turned = _parts(x, indexes, bounds, key)
    made = x.clone()
    made[parts] = value.expand(x[parts].shape).flip(turned) if turned else _one_number(value, x[parts])
    return made


@computed("masked_put", inputs=("X", "Mask", "Value"), wrt=("X", "Value"))
def _masked_put(x: T, mask: T, value: T) -> T:
    """`x` with one number, or one entry, where the mask is True."""
    return torch.where(mask.reshape(*mask.shape, *([1] * (x.dim() - mask.dim()))), value, x)


def _one_number(value: T, place: T) -> T:
    """A single value of shape [1] fits everywhere, also where no dimension is left."""
    return value.reshape(()) if value.numel() == 1 and place.dim() == 0 else value


def _parts(x: T, indexes: list[T], bounds: list[T], key: list[list[Any]]) -> tuple[tuple[Any, ...], list[int]]:
    """What torch takes between brackets, and the dimensions of the result that are then to be turned round."""
    given, ends = iter(indexes), iter(bounds)
    parts: list[Any] = []
    turned: list[int] = []
    for kind, *more in _without_dots(key, x.dim()):
        if kind == "slice":
            start, stop, step = (_bound(one, ends) for one in more)
            length = x.shape[sum(one is not None for one in parts)]
            if step is not None and step < 0:
                turned.append(sum(isinstance(one, slice) or one is None for one in parts))
                parts.append(_forward(slice(start, stop, step), length))
            else:
                parts.append(slice(start, stop, step))
        elif kind == "new":
            parts.append(None)
        else:
            parts.append(next(given) if kind == "index" else more[0])
    return tuple(parts), turned


def _without_dots(key: list[list[Any]], rank: int) -> Iterator[list[Any]]:
    missing = rank - sum(one[0] not in ("new", "dots") for one in key)
    for one in key:
        yield from [["slice", None, None, None]] * missing if one[0] == "dots" else [one]


def _bound(given: Any, ends: Iterator[T]) -> int | None:
    if given == "variable":
        return int(next(ends).reshape(-1)[0])
    return None if given is None else int(given)


def _forward(one: slice, length: int) -> slice:
    """A slice with a step back as one forward, whose entries are then in reverse."""
    start, stop, step = one.indices(length)
    count = len(range(start, stop, step))
    return slice(start + (count - 1) * step, start + 1, -step) if count else slice(0, 0)
