"""Images changed by functions: those of PIL stay PIL's, arrays [height, width, channels] stay arrays."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.vision.images import as_array, is_pil, like, pil, size_of

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "center_crop",
    "crop",
    "hflip",
    "normalize",
    "pad",
    "resize",
    "rotate",
    "to_grayscale",
    "to_tensor",
    "vflip",
]

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_WAYS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5, "area": 4}
_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}


def to_tensor(pic: Any, data_format: str = "CHW") -> Any:
    """Floats, [channels, height, width]; bytes are divided by 255."""
    if data_format not in ("CHW", "HWC"):
        raise UsageError(f"to_tensor: data_format must be 'CHW' or 'HWC', got {data_format!r}")
    array = as_array(pic)
    made = torch.from_numpy(np.array(array.transpose(2, 0, 1) if data_format == "CHW" else array, order="C"))
    is_bytes = made.dtype == torch.uint8
    made = made.float() if made.dtype in (torch.uint8, torch.bool, torch.float64) else made
    return as_paddle(made / 255.0 if is_bytes else made)


def normalize(img: Any, mean: Any, std: Any, data_format: str = "CHW", to_rgb: bool = False) -> Any:
    """Minus the mean, divided by the deviation, each a number for each channel; a tensor stays one."""
    shape = (-1, 1, 1) if data_format == "CHW" else (-1,)
    if isinstance(img, torch.Tensor):
        minus, by = (torch.as_tensor(one, dtype=torch.float32, device=img.device).reshape(shape) for one in (mean, std))
        return as_paddle((img.float() - minus) / by)
    array = np.asarray(img, np.float32)
    if to_rgb:
        array = array[::-1] if data_format == "CHW" else array[..., ::-1]
    less, over = (np.asarray(one, np.float32).reshape(shape) for one in (mean, std))
    return (array - less) / over


def resize(img: Any, size: int | Sequence[int], interpolation: str = "bilinear") -> Any:
    """Another size: [height, width], or one number for the shorter side, the other in proportion."""
    if interpolation not in _WAYS:
        raise UsageError(f"resize: interpolation must be one of {', '.join(_WAYS)}, got {interpolation!r}")
    height, width = size_of(img)
    if isinstance(size, int):
        if min(height, width) == size:
            return img
        scale = size / min(height, width)
        wanted = (size, int(width * scale)) if height <= width else (int(height * scale), size)
    else:
        wanted = (int(size[0]), int(size[1]))
    if is_pil(img):
        return img.resize(wanted[::-1], _WAYS[interpolation])
    array = as_array(img)
    given = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1))).float()[None]
    way = interpolation if interpolation in ("nearest", "bicubic", "area") else "bilinear"
    corners = False if way in ("bilinear", "bicubic") else None
    made = torch.nn.functional.interpolate(given, wanted, mode=way, align_corners=corners)
    return like(_as_before(made[0].permute(1, 2, 0).numpy(), array), img)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of the image."""
    if is_pil(img):
        return img.crop((left, top, left + width, top + height))
    return img[top : top + height, left : left + width]


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """The middle of the image."""
    wanted = (output_size, output_size) if isinstance(output_size, numbers.Number) else tuple(output_size)  # type: ignore[arg-type]
    height, width = size_of(img)
    top, left = round((height - wanted[0]) / 2.0), round((width - wanted[1]) / 2.0)  # type: ignore[operator]
    return crop(img, int(top), int(left), int(wanted[0]), int(wanted[1]))  # type: ignore[arg-type]


def hflip(img: Any) -> Any:
    """Left and right change places."""
    return like(np.ascontiguousarray(as_array(img)[:, ::-1]), img)


def vflip(img: Any) -> Any:
    """Top and bottom change places."""
    return like(np.ascontiguousarray(as_array(img)[::-1]), img)


def pad(img: Any, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> Any:
    """A rim: one width for all sides, [left and right, top and bottom], or [left, top, right, bottom]."""
    if padding_mode not in _MODES:
        raise UsageError(f"pad: padding_mode must be one of {', '.join(_MODES)}, got {padding_mode!r}")
    several = [padding] * 4 if isinstance(padding, int) else list(padding) * (2 if len(padding) == 2 else 1)
    left, top, right, bottom = several
    array = as_array(img)
    rims = ((top, bottom), (left, right), (0, 0))
    if padding_mode != "constant":
        made = np.pad(array, rims, mode=padding_mode)  # type: ignore[call-overload]
    elif isinstance(fill, numbers.Number):
        made = np.pad(array, rims, constant_values=fill)  # type: ignore[call-overload]
    else:
        channels = [np.pad(array[..., at], rims[:2], constant_values=one) for at, one in enumerate(fill)]
        made = np.stack(channels, -1)
    return like(made, img)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Without colours; one channel, or three alike."""
    array = as_array(img)
    grey = array if array.shape[2] == 1 else (array[..., :3].astype(np.float32) @ _GREY)[..., None]
    return like(_as_before(np.repeat(grey, num_output_channels, 2), array), img)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Brighter for factors above 1; 0 is black."""
    return _mixed(img, np.zeros(1, np.float32), brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """More contrast for factors above 1; 0 is one grey."""
    return _mixed(img, np.round(as_array(to_grayscale(img)).astype(np.float32).mean()), contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Stronger colours for factors above 1; 0 is none."""
    return _mixed(img, as_array(to_grayscale(img, as_array(img).shape[2])).astype(np.float32), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Colours turned around the circle by a part of it, from -0.5 to 0.5; an image of bytes."""
    if not -0.5 <= hue_factor <= 0.5:
        raise UsageError(f"adjust_hue: hue_factor must be from -0.5 to 0.5, got {hue_factor}")
    array = as_array(img)
    if array.shape[2] != 3:
        return img
    turned = np.asarray(pil().fromarray(array.astype(np.uint8)).convert("HSV")).copy()
    turned[..., 0] += np.uint8(int(hue_factor * 255) % 256)
    made = np.asarray(pil().fromarray(turned, "HSV").convert("RGB"))
    return like(made.astype(array.dtype), img)


def rotate(
    img: Any, angle: float, interpolation: str = "nearest", expand: bool = False, center: Any = None, fill: Any = 0
) -> Any:
    """Turned against the clock by an angle in degrees; with `expand` the result is as large as needs be."""
    if is_pil(img):
        return img.rotate(angle, _WAYS[interpolation], expand, center, fillcolor=fill)
    array = as_array(img)
    planes = [pil().fromarray(array[..., at].astype(np.float32), "F") for at in range(array.shape[2])]
    made = [np.asarray(one.rotate(angle, _WAYS[interpolation], expand, center, fillcolor=fill)) for one in planes]
    return like(_as_before(np.stack(made, -1), array), img)


def _mixed(img: Any, other: Any, factor: float) -> Any:
    """`factor` parts of the image, the rest of another one."""
    if not factor >= 0 or math.isinf(factor):
        raise UsageError(f"vision: a factor of brightness, contrast or saturation must be >= 0, got {factor}")
    array = as_array(img)
    return like(_as_before(other + factor * (array.astype(np.float32) - other), array), img)


def _as_before(values: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats as the type of an image; bytes are cut at 0 and 255."""
    cut = np.clip(values, 0, 255) if array.dtype == np.uint8 else np.asarray(values)
    made: np.ndarray[Any, Any] = cut.astype(array.dtype)
    return made
