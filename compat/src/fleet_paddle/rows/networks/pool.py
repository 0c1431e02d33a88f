"""Rows of pooling: one value for each window of a sequence, an image or a volume."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError
from fleet_paddle.rows import window
from fleet_paddle.rows.function import Function, function
from fleet_paddle.rows.window import Sizes, back, is_last, to_first, wide
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.images import windows
from fleet_programs.program.variable import Variable

T = torch.Tensor

_MAX: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_LARGEST: dict[int, Any] = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
_MEANS: dict[int, Any] = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}


def _max(
    rank: int, x: T, kernel: Any, stride: Any, padding: Any, return_mask: bool, ceil_mode: bool, layout: str = "NCL"
) -> Any:
    image, pads, around, last = _around(f"max_pool{rank}d", rank, x, kernel, stride, padding, layout)
    if pads is None:
        if return_mask:
            raise NotSupportedError(f"max_pool{rank}d: return_mask needs the same padding on both sides; pad the input")
        image, pads = F.pad(image, around, value=-math.inf), [0] * rank
    made = _MAX[rank](image, kernel, stride, pads, 1, ceil_mode, return_mask)
    return tuple(back(one, last) for one in made) if return_mask else back(made, last)


def _mean(
    rank: int, x: T, kernel: Any, stride: Any, padding: Any, ceil: bool, exclusive: bool, divisor: Any, layout: str
) -> T:
    image, pads, around, last = _around(f"avg_pool{rank}d", rank, x, kernel, stride, padding, layout)
    more = () if divisor is None else (divisor,)
    if pads is not None:
        return back(_MEAN[rank](image, kernel, stride, pads, ceil, not exclusive, *more), last)
    made = _MEAN[rank](F.pad(image, around), kernel, stride, 0, ceil, True, *more)
    if exclusive and divisor is None:
        inside = F.pad(torch.ones_like(image[:1, :1]), around)
        made = made / _MEAN[rank](inside, kernel, stride, 0, ceil, True)
    return back(made, last)


def _mean1d(x: T, kernel_size: Sizes, stride: Sizes | None, padding: Any, exclusive: bool, ceil_mode: bool) -> T:
    return _mean(1, x, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL")


def _around(
    what: str, rank: int, x: T, kernel_size: Sizes, stride: Sizes | None, padding: Any, data_format: str
) -> tuple[T, list[int] | None, list[int], bool]:
    """The image with its channels first; its padding if torch's pools can do that; else that of torch's pad."""
    last = is_last(what, data_format, rank)
    image = to_first(x, last)
    if not last and type(padding) is int and type(kernel_size) is int and padding <= kernel_size // 2:
        return image, [padding] * rank, [], last  # as most are: nothing to work out
    both = window.sides(what, padding, last, image.shape[2:], kernel_size, kernel_size if stride is None else stride)
    pads = window.equal_sides(both)
    halves = [side // 2 for side in window.each(f"{what}: kernel_size", kernel_size, rank)]
    if pads is not None and any(one > half for one, half in zip(pads, halves, strict=True)):
        pads = None
    return image, pads, window.flat(both), last


def _means(rank: int, x: T, output_size: Any, data_format: str = "NCL") -> T:
    last = is_last(f"adaptive_avg_pool{rank}d", data_format, rank)
    return back(_MEANS[rank](to_first(x, last), output_size), last)


def _pooled(
    rank: int, x: Variable, way: str, sizes: tuple[Any, Any, Any], ceil: bool, exclusive: bool, layout: str, name: Any
) -> tuple[Variable, Variable | None]:
    """(the pool, where each greatest value was); of a sequence those of images of height 1."""
    kernel, stride, padding = sizes
    step = kernel if stride is None else stride
    if rank == 1:
        high = (wide(kernel, 1), wide(step, 1), wide(padding, 0))
        out, mask = _pooled(2, layers.unsqueeze(x, [2]), way, high, ceil, exclusive, "NCHW", name)
        return layers.squeeze(out, [2]), None if mask is None else layers.squeeze(mask, [2])
    layer = LayerBuilder(f"pool{rank}d", name)
    _, given = windows.channels_and_sizes(layer, x, rank, layout)
    sides = windows.each(layer, kernel, rank, "kernel_size", 1)
    steps = windows.each(layer, step, rank, "stride", 1)
    word = padding.upper() if isinstance(padding, str) else padding
    attrs = {
        "ksize": sides,
        "strides": steps,
        **windows.padding_attrs(layer, word, given, sides, steps, [1] * rank, layout),
        "ceil_mode": bool(ceil),
        "exclusive": bool(exclusive),
        "data_format": layout,
    }
    return windows.add_pool(layer, f"pool{rank}d", x, way, attrs)


def _max_of_variables(
    rank: int, x: Variable, kernel: Any, stride: Any, padding: Any, wants_mask: bool, ceil: bool, *more: Any
) -> Any:
    layout, name = more if rank > 1 else ("NCL", *more)
    if wants_mask and (layout.endswith("C") or not isinstance(padding, int)):
        raise NotSupportedError(
            f"max_pool{rank}d: return_mask needs channels before sizes and one number for padding; pad the input"
        )
    out, mask = _pooled(rank, x, "max", (kernel, stride, padding), ceil, True, layout, name)
    return (out, mask) if wants_mask else out


def _mean_of_variables(
    rank: int, x: Variable, kernel: Any, stride: Any, padding: Any, ceil: bool, exclusive: bool, *more: Any
) -> Variable:
    divisor, layout, name = more
    made = _pooled(rank, x, "avg", (kernel, stride, padding), ceil, exclusive and divisor is None, layout, name)[0]
    if divisor is None:
        return made
    return layers.scale(made, math.prod(window.each("kernel_size", kernel, rank)) / float(divisor))


def _mean1d_of_variables(
    x: Variable, kernel: Any, stride: Any, padding: Any, exclusive: bool, ceil: bool, name: str | None
) -> Variable:
    return _mean_of_variables(1, x, kernel, stride, padding, ceil, exclusive, None, "NCL", name)


def _adaptive(rank: int, x: Variable, output_size: Any, way: str, layout: str, name: str | None) -> Any:
    """(the pool, where each greatest value was) with as many windows as are wanted."""
    last = is_last(f"adaptive_{way}_pool{rank}d", layout, rank)
    if last:
        x = layers.transpose(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])
    wanted = [output_size] * rank if output_size is None or isinstance(output_size, int) else list(output_size)
    shape = [size if one is None else one for one, size in zip(wanted, x.shape[2:], strict=True)]
    if rank == 1:
        x, shape = layers.unsqueeze(x, [2]), [1, *shape]
    made = windows.add_pool(
        LayerBuilder(f"adaptive_pool{rank}d", name), f"pool{max(rank, 2)}d", x, way, {"ksize": shape, "adaptive": True}
    )
    if rank == 1:
        made = (layers.squeeze(made[0], [2]), None if made[1] is None else layers.squeeze(made[1], [2]))
    return (layers.transpose(made[0], [0, *range(2, rank + 2), 1]), None) if last else made


def _means_of_variables(rank: int, x: Variable, output_size: Any, *more: Any) -> Variable:
    layout, name = more if rank > 1 else ("NCL", *more)
    made: Variable = _adaptive(rank, x, output_size, "avg", layout, name)[0]
    return made


def _largest_of_variables(rank: int, x: Variable, output_size: Any, wants_mask: bool, name: str | None) -> Any:
    made = _adaptive(rank, x, output_size, "max", window.FORMATS[rank][0], name)
    return made if wants_mask else made[0]


def _rows(rank: int) -> list[Function]:
    """The four pools of one number of dimensions; those of sequences take no format."""
    kind, layout = window.KINDS[rank], "" if rank == 1 else f"data_format={window.FORMATS[rank][0]!r}, "
    given = "x, kernel_size, stride=None, padding=0"
    how = "exclusive=True, ceil_mode=False, "
    if rank > 1:
        how = "ceil_mode=False, exclusive=True, divisor_override=None, "
    return [
        function(
            f"F.max_pool{rank}d({given}, return_mask=False, ceil_mode=False, {layout}name)",
            f"The greatest value of each window of {kind}s; with `return_mask` also where it was.",
            partial(_max, rank),
            partial(_max_of_variables, rank),
            f"MaxPool{rank}D",
        ),
        function(
            f"F.avg_pool{rank}d({given}, {how}{layout}name)",
            f"The mean of each window of {kind}s; with `exclusive` zeros of the padding do not count.",
            _mean1d if rank == 1 else partial(_mean, rank),
            _mean1d_of_variables if rank == 1 else partial(_mean_of_variables, rank),
            f"AvgPool{rank}D",
        ),
        function(
            f"F.adaptive_avg_pool{rank}d(x, output_size, {layout}name)",
            f"The means of as many windows of {kind}s as `output_size` says; None is the size that it has.",
            partial(_means, rank),
            partial(_means_of_variables, rank),
            f"AdaptiveAvgPool{rank}D",
        ),
        function(
            f"F.adaptive_max_pool{rank}d(x, output_size, return_mask=False, name)",
            f"The greatest values of as many windows of {kind}s as `output_size` says; `return_mask` adds places.",
            _LARGEST[rank],
            partial(_largest_of_variables, rank),
            f"AdaptiveMaxPool{rank}D",
        ),
    ]


FUNCTIONS = [one for rank in (1, 2, 3) for one in _rows(rank)]
