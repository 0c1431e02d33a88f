"""Other sizes, parts, mirrors and turns of images; where chance decides, Python's `random` is asked."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from fleet.errors import UsageError
from fleet_paddle.vision.images import size_of
from fleet_paddle.vision.transforms import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.vision.transforms.base import BaseTransform

__all__ = [
    "CenterCrop",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
]

Size = int | Sequence[int]
Keys = Sequence[str] | None


def _both(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


class Resize(BaseTransform):
    """Another size: [height, width], or one number for the shorter side."""

    def __init__(self, size: Size, interpolation: str = "bilinear", keys: Keys = None) -> None:
        super().__init__(keys)
        self.size, self.interpolation = size, interpolation

    def _apply_image(self, image: Any) -> Any:
        return F.resize(image, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """The middle of an image."""

    def __init__(self, size: Size, keys: Keys = None) -> None:
        super().__init__(keys)
        self.size = _both(size)

    def _apply_image(self, image: Any) -> Any:
        return F.center_crop(image, self.size)


class Pad(BaseTransform):
    """A rim around an image."""

    def __init__(self, padding: Size, fill: Any = 0, padding_mode: str = "constant", keys: Keys = None) -> None:
        super().__init__(keys)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def _apply_image(self, image: Any) -> Any:
        return F.pad(image, self.padding, self.fill, self.padding_mode)


class RandomCrop(BaseTransform):
    """A part of a given size, anywhere; with `padding` there is a rim first, with `pad_if_needed` where it is small."""

    def __init__(
        self,
        size: Size,
        padding: Size | None = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.size, self.padding, self.pad_if_needed = _both(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def _get_params(self, inputs: Any) -> Any:  # noqa: ARG002
        return random.random(), random.random()

    def _apply_image(self, image: Any) -> Any:
        if self.padding is not None:
            image = F.pad(image, self.padding, self.fill, self.padding_mode)
        height, width = size_of(image)
        if self.pad_if_needed:
            down, across = max(0, self.size[0] - height), max(0, self.size[1] - width)
            image = F.pad(image, [across, down], self.fill, self.padding_mode) if down or across else image
            height, width = size_of(image)
        if height < self.size[0] or width < self.size[1]:
            raise UsageError(f"RandomCrop: size {self.size} does not fit into {height} x {width}; set pad_if_needed")
        down, across = (int(one * (room + 1)) for one, room in zip(self.params, self._room(height, width), strict=True))
        return F.crop(image, down, across, *self.size)

    def _room(self, height: int, width: int) -> tuple[int, int]:
        return height - self.size[0], width - self.size[1]


class RandomResizedCrop(BaseTransform):
    """A part of an image, of any place, size and proportions within limits, made as large as `size`."""

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.size, self.scale, self.ratio, self.interpolation = _both(size), scale, ratio, interpolation

    def _get_params(self, inputs: Any) -> Any:
        height, width = size_of(inputs[0])
        for _ in range(10):
            area = random.uniform(*self.scale) * height * width
            aspect = math.exp(random.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            across, down = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < across <= width and 0 < down <= height:
                return random.randint(0, height - down), random.randint(0, width - across), down, across
        aspect = min(max(width / height, self.ratio[0]), self.ratio[1])
        down, across = min(height, round(width / aspect)), min(width, round(height * aspect))
        return (height - down) // 2, (width - across) // 2, down, across

    def _apply_image(self, image: Any) -> Any:
        return F.resize(F.crop(image, *self.params), self.size, self.interpolation)


class _Flip(BaseTransform):
    def __init__(self, prob: float = 0.5, keys: Keys = None) -> None:
        super().__init__(keys)
        if not 0 <= prob <= 1:
            raise UsageError(f"{type(self).__name__}: prob must be from 0 to 1, got {prob}")
        self.prob = prob

    def _get_params(self, inputs: Any) -> Any:  # noqa: ARG002
        return random.random() < self.prob


class RandomHorizontalFlip(_Flip):
    """Left and right change places, sometimes."""

    def _apply_image(self, image: Any) -> Any:
        return F.hflip(image) if self.params else image


class RandomVerticalFlip(_Flip):
    """Top and bottom change places, sometimes."""

    def _apply_image(self, image: Any) -> Any:
        return F.vflip(image) if self.params else image


class RandomRotation(BaseTransform):
    """A turn by an angle between two, or between a number and its negative."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: str | bool = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = (-degrees, degrees) if isinstance(degrees, int | float) else tuple(degrees)
        self.interpolation = interpolation if isinstance(interpolation, str) else "nearest"  # 2.0 had False there
        self.expand, self.center, self.fill = expand, center, fill

    def _get_params(self, inputs: Any) -> Any:  # noqa: ARG002
        return random.uniform(*self.degrees)

    def _apply_image(self, image: Any) -> Any:
        return F.rotate(image, self.params, self.interpolation, self.expand, self.center, self.fill)
