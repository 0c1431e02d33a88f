"""Operators whose sizes are values: numbers of the attribute `numbers`, and variables where it has None.

With no numbers at all a single variable has them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleet_paddle.programs.variables.computed import computed
from fleet_programs.definition.dtypes import torch_dtype
from fleet_programs.definition.registry import Infer

T = torch.Tensor

_SIZED: dict[str, Any] = {"attrs": {"numbers": []}, "inputs": ("X", "Sizes*"), "values": ("Sizes",)}


def _whole(numbers: Sequence[int | None], sizes: Sequence[T]) -> list[int]:
    if not numbers:
        return [int(one) for one in sizes[0].reshape(-1).tolist()]
    left = iter(sizes)
    return [int(next(left).reshape(-1)[0]) if one is None else one for one in numbers]


def _infer_reshape(infer: Infer) -> None:
    numbers, x = infer.attr("numbers"), infer.shape("X")
    if not numbers:
        count = infer.shape("Sizes")[0]
        if count < 1:
            raise infer.fail("the number of sizes must be known; give them in a list")
        numbers = [None] * count
    kept = [
        x[place] if one == 0 and place < len(x) else -1 if one is None else one for place, one in enumerate(numbers)
    ]
    infer.set("Out", kept, infer.dtype("X"))


@computed("reshape_at", infer=_infer_reshape, **_SIZED)
def _reshape(x: T, sizes: list[T], numbers: list[int | None]) -> T:
    """Another shape; 0 is the size that the dimension has."""
    wanted = [x.shape[place] if one == 0 else one for place, one in enumerate(_whole(numbers, sizes))]
    return x.reshape(wanted)


@computed("tile_at", **_SIZED)
def _tile(x: T, sizes: list[T], numbers: list[int | None]) -> T:
    """As many copies along each dimension."""
    return torch.tile(x, _whole(numbers, sizes))


def _infer_expand(infer: Infer) -> None:
    numbers, x = infer.attr("numbers"), infer.shape("X")
    count = len(numbers) or infer.shape("Sizes")[0]
    if count < len(x):
        raise infer.fail(f"X of shape {list(x)} needs at least as many sizes, got {count}")
    own = [1] * (count - len(x)) + list(x)
    pairs = zip(numbers or [None] * count, own, strict=True)
    infer.set("Out", [-1 if one is None else old if one == -1 else one for one, old in pairs], infer.dtype("X"))


@computed("expand_at", infer=_infer_expand, **_SIZED)
def _expand(x: T, sizes: list[T], numbers: list[int | None]) -> T:
    """As if copied along dimensions of size 1; -1 is the size that there is."""
    return x.expand(_whole(numbers, sizes)).clone()


def _infer_range(infer: Infer) -> None:
    infer.set("Out", [-1], infer.attr("dtype"))


@computed(
    "range_at",
    attrs={"numbers": [], "dtype": "int64"},
    inputs=("Sizes*",),
    wrt=(),
    infer=_infer_range,
)
def _range(sizes: list[T], numbers: list[float | None], dtype: str) -> T:
    """Numbers from the first to before the second, by steps."""
    left = iter(sizes)
    start, end, step = (next(left).reshape(-1)[0].item() if one is None else one for one in numbers)
    return torch.arange(start, end, step, dtype=torch_dtype(dtype), device=sizes[0].device)


def _infer_hot(infer: Infer) -> None:
    infer.set("Out", [*infer.shape("X"), -1], infer.attr("dtype"))


@computed(
    "places_below",
    attrs={"dtype": "int64", "is_one": False},
    inputs=("X", "Depth"),
    wrt=(),
    infer=_infer_hot,
)
def _places(x: T, depth: T, dtype: str, is_one: bool) -> T:
    """1 at the place of each number if `is_one`, else at all places before it; as many places as `depth` says."""
    places = torch.arange(int(depth.reshape(-1)[0]), device=x.device)
    last = x.unsqueeze(-1)
    return (places == last if is_one else places < last).to(torch_dtype(dtype))
