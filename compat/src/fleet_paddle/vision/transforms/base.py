"""`BaseTransform`, `Compose`, and those that end a list: to tensors, normalised."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import NotSupportedError
from fleet_paddle.vision.images import as_array
from fleet_paddle.vision.transforms import functional as F  # noqa: N812 - as everybody calls it

__all__ = ["BaseTransform", "Compose", "Normalize", "ToTensor", "Transpose"]


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = list(transforms)

    def __call__(self, data: Any) -> Any:
        for one in self.transforms:
            data = one(data)
        return data

    def __repr__(self) -> str:
        return f"Compose({', '.join(repr(one) for one in self.transforms)})"


class BaseTransform:
    """A change of images; a subclass writes `_apply_image`, and `_get_params` where chance decides something.

    `keys` says what the parts of a tuple are: 'image' is changed, and so is any kind that a subclass has an
    `_apply_KIND` for; the others pass through. Without `keys` there is one image.
    """

    params: Any = None

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        self.keys = ("image",) if keys is None else tuple(keys)

    def _get_params(self, inputs: Any) -> Any:
        """What is decided once for all parts; `_apply_image` finds it as `self.params`."""

    def _apply_image(self, image: Any) -> Any:  # noqa: ARG002
        raise NotSupportedError(f"{type(self).__name__}: _apply_image is not written; it is given an image to change")

    def __call__(self, inputs: Any) -> Any:
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(parts)
        made = [self._change(key)(one) for key, one in zip(self.keys, parts, strict=False)]
        made += parts[len(made) :]
        return tuple(made) if len(made) > 1 else made[0]

    def _change(self, kind: str) -> Any:
        return getattr(self, f"_apply_{kind}", None) or (lambda part: part)


class ToTensor(BaseTransform):
    """A tensor of floats, [channels, height, width]; bytes become 0 to 1."""

    def __init__(self, data_format: str = "CHW", keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, image: Any) -> Any:
        return F.to_tensor(image, self.data_format)


class Normalize(BaseTransform):
    """Minus the mean, divided by the deviation: numbers for each channel, or one for three."""

    def __init__(
        self,
        mean: Any = 0.0,
        std: Any = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, numbers.Number) else list(mean)
        self.std = [std] * 3 if isinstance(std, numbers.Number) else list(std)
        self.data_format, self.to_rgb = data_format, to_rgb

    def _apply_image(self, image: Any) -> Any:
        return F.normalize(image, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """The dimensions of an image in another order, as an array; channels first unless told otherwise."""

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.order = tuple(order)

    def _apply_image(self, image: Any) -> Any:
        if isinstance(image, torch.Tensor):
            return image.permute(self.order)
        return np.ascontiguousarray(as_array(image).transpose(self.order))
