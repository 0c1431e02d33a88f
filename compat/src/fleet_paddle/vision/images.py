"""What an image is here: an array [height, width, channels], one of PIL's, or a tensor; and how files are read."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError

__all__ = ["get_image_backend", "image_load", "set_image_backend"]

_BACKENDS = ("pil", "cv2", "tensor")


class _Chosen:
    backend = "pil"


def set_image_backend(backend: str) -> None:
    """What datasets give: 'pil', or 'cv2' for arrays; and what `image_load` reads with."""
    _Chosen.backend = checked_backend(backend)


def get_image_backend() -> str:
    """What `set_image_backend` said last; 'pil' at first."""
    return _Chosen.backend


def checked_backend(backend: str | None) -> str:
    """The backend that is meant; UsageError for one that is not known."""
    if backend is None:
        return _Chosen.backend
    if backend not in _BACKENDS:
        raise UsageError(f"vision: backend must be one of {', '.join(_BACKENDS)}, got {backend!r}")
    return backend


def image_load(path: str, backend: str | None = None) -> Any:
    """An image out of a file: PIL's, or an array [height, width, 3] in the order blue, green, red for 'cv2'."""
    wanted = checked_backend(backend)
    with pil().open(path) as file:
        file.load()
        image = file.copy()
    if wanted == "pil":
        return image
    array = np.asarray(image.convert("RGB"))
    return torch.from_numpy(array.copy()) if wanted == "tensor" else array[:, :, ::-1].copy()


def pil() -> ModuleType:
    """PIL's Image; UsageError where Pillow is not installed."""
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise UsageError("vision: reading and showing images needs Pillow: pip install pillow") from None


def is_pil(image: Any) -> bool:
    """Whether it is one of PIL's."""
    return type(image).__module__.startswith("PIL.")


def is_array(image: Any) -> bool:
    """Whether it is an array of two or three dimensions."""
    return isinstance(image, np.ndarray) and image.ndim in (2, 3)


def as_array(image: Any) -> np.ndarray[Any, Any]:
    """The image as an array [height, width, channels]."""
    array = image.numpy() if isinstance(image, torch.Tensor) else np.asarray(image)
    return array[:, :, None] if array.ndim == 2 else array


def like(array: np.ndarray[Any, Any], image: Any) -> Any:
    """The array as what the image was: PIL's, a tensor, or an array with as many dimensions."""
    if is_pil(image):
        return pil().fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    if isinstance(image, torch.Tensor):
        return torch.from_numpy(np.ascontiguousarray(array))
    return array[:, :, 0] if image.ndim == 2 else array


def size_of(image: Any) -> tuple[int, int]:
    """Height and width."""
    if is_pil(image):
        width, height = image.size
        return height, width
    return int(image.shape[0]), int(image.shape[1])
