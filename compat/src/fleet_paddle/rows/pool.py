"""Rows of pooling: one value for each window of a sequence, an image or a volume."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.variable import Variable
from fleet_paddle.rows import window
from fleet_paddle.rows.function import Function, function
from fleet_paddle.rows.window import Sizes, back, is_last, to_first, wide

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


def _no_mask(what: str, return_mask: bool) -> None:
    if return_mask:
        raise NotSupportedError(f"{what}: return_mask must be False for a variable; the places are not given out")


def _pooled(
    x: Variable, kernel: Any, kind: str, stride: Any, padding: Any, ceil_mode: bool, exclusive: bool, more: Any
) -> Variable:
    """`pool2d`, or of a sequence that of images of height 1; `more` are a name and perhaps a format."""
    *data_format, name = more
    step = kernel if stride is None else stride
    settings = {"ceil_mode": ceil_mode, "exclusive": exclusive, "name": name}
    if not data_format:
        sizes = (wide(kernel, 1), kind, wide(step, 1), _way(wide(padding, 0)))
        return layers.squeeze(layers.pool2d(layers.unsqueeze(x, [2]), *sizes, **settings), [2])
    return layers.pool2d(x, kernel, kind, step, _way(padding), **settings, data_format=data_format[0])


def _way(padding: Any) -> Any:
    return padding.upper() if isinstance(padding, str) else padding


def _max_of_variables(
    x: Variable, kernel: Any, stride: Any, padding: Any, mask: bool, ceil: bool, *more: Any
) -> Variable:
    _no_mask("max_pool", mask)
    return _pooled(x, kernel, "max", stride, padding, ceil, True, more)


def _mean1d_of_variables(
    x: Variable, kernel: Any, stride: Any, padding: Any, exclusive: bool, ceil: bool, name: str | None
) -> Variable:
    return _pooled(x, kernel, "avg", stride, padding, ceil, exclusive, (name,))


def _mean2d_of_variables(
    x: Variable, kernel: Any, stride: Any, padding: Any, ceil: bool, exclusive: bool, divisor: Any, *more: Any
) -> Variable:
    if divisor is not None:
        raise NotSupportedError("avg_pool2d: divisor_override must be left out for a variable; scale the result")
    return _pooled(x, kernel, "avg", stride, padding, ceil, exclusive, more)


def _adaptive(x: Variable, output_size: Any, kind: str, data_format: str, name: str | None) -> Variable:
    if data_format != "NCHW":
        raise NotSupportedError(
            f"adaptive_{kind}_pool2d: data_format must be 'NCHW', got {data_format!r}; transpose it"
        )
    wanted = [output_size] * 2 if output_size is None or isinstance(output_size, int) else list(output_size)
    shape = [size if one is None else one for one, size in zip(wanted, x.shape[2:], strict=False)]
    return layers.adaptive_pool2d(x, shape, kind, name=name)


def _largest_of_variables(x: Variable, output_size: Any, return_mask: bool, name: str | None) -> Variable:
    _no_mask("adaptive_max_pool2d", return_mask)
    return _adaptive(x, output_size, "max", "NCHW", name)


_OF_VARIABLES: dict[int, Callable[..., Variable]] = {1: _mean1d_of_variables, 2: _mean2d_of_variables}


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
            None if rank == 3 else _max_of_variables,
            f"MaxPool{rank}D",
        ),
        function(
            f"F.avg_pool{rank}d({given}, {how}{layout}name)",
            f"The mean of each window of {kind}s; with `exclusive` zeros of the padding do not count.",
            _mean1d if rank == 1 else partial(_mean, rank),
            _OF_VARIABLES.get(rank),
            f"AvgPool{rank}D",
        ),
        function(
            f"F.adaptive_avg_pool{rank}d(x, output_size, {layout}name)",
            f"The means of as many windows of {kind}s as `output_size` says; None is the size that it has.",
            partial(_means, rank),
            (lambda x, size, layout, name: _adaptive(x, size, "avg", layout, name)) if rank == 2 else None,
            f"AdaptiveAvgPool{rank}D",
        ),
        function(
            f"F.adaptive_max_pool{rank}d(x, output_size, return_mask=False, name)",
            f"The greatest values of as many windows of {kind}s as `output_size` says; `return_mask` adds places.",
            _LARGEST[rank],
            _largest_of_variables if rank == 2 else None,
            f"AdaptiveMaxPool{rank}D",
        ),
    ]


FUNCTIONS = [one for rank in (1, 2, 3) for one in _rows(rank)]
