"""Images brighter, with more contrast, in other colours or in none; by how much chance decides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from fleet.errors import UsageError
from fleet_paddle.vision.transforms import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.vision.transforms.base import BaseTransform

__all__ = [
    "BrightnessTransform",
    "ColorJitter",
    "ContrastTransform",
    "Grayscale",
    "HueTransform",
    "SaturationTransform",
]

Keys = Sequence[str] | None


class _Chance(BaseTransform):
    """A factor between 1 - value and 1 + value, or between two numbers."""

    centre: ClassVar[float] = 1.0
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))

    def __init__(self, value: float | Sequence[float], keys: Keys = None) -> None:
        super().__init__(keys)
        if isinstance(value, int | float):
            if value < 0:
                raise UsageError(f"{type(self).__name__}: value must be >= 0, got {value}")
            low, high = max(self.centre - value, self.bounds[0]), self.centre + value
        else:
            low, high = value
        if not self.bounds[0] <= low <= high <= self.bounds[1]:
            raise UsageError(f"{type(self).__name__}: value must be within {self.bounds}, got {value!r}")
        self.value: Any = None if low == high == self.centre else (float(low), float(high))

    def _get_params(self, inputs: Any) -> Any:  # noqa: ARG002
        return None if self.value is None else random.uniform(*self.value)

    def _apply_image(self, image: Any) -> Any:
        return image if self.params is None else self._changed(image, self.params)

    def _changed(self, image: Any, factor: float) -> Any:
        raise NotImplementedError


class BrightnessTransform(_Chance):
    """Brighter or darker."""

    def _changed(self, image: Any, factor: float) -> Any:
        return F.adjust_brightness(image, factor)


class ContrastTransform(_Chance):
    """More or less contrast."""

    def _changed(self, image: Any, factor: float) -> Any:
        return F.adjust_contrast(image, factor)


class SaturationTransform(_Chance):
    """Stronger or weaker colours."""

    def _changed(self, image: Any, factor: float) -> Any:
        return F.adjust_saturation(image, factor)


class HueTransform(_Chance):
    """Colours turned around the circle by at most a part of it."""

    centre = 0.0
    bounds = (-0.5, 0.5)

    def _changed(self, image: Any, factor: float) -> Any:
        return F.adjust_hue(image, factor)


class ColorJitter(BaseTransform):
    """All four, in an order that chance decides."""

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0, keys: Keys = None
    ) -> None:
        super().__init__(keys)
        self._several = [
            BrightnessTransform(brightness),
            ContrastTransform(contrast),
            SaturationTransform(saturation),
            HueTransform(hue),
        ]

    def _get_params(self, inputs: Any) -> Any:  # noqa: ARG002
        return random.sample(self._several, len(self._several))

    def _apply_image(self, image: Any) -> Any:
        for one in self.params:
            image = one(image)
        return image


class Grayscale(BaseTransform):
    """Without colours; one channel, or three alike."""

    def __init__(self, num_output_channels: int = 1, keys: Keys = None) -> None:
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, image: Any) -> Any:
        return F.to_grayscale(image, self.num_output_channels)
