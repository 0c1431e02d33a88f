"""Images of a few pixels that fit into memory: MNIST, FashionMNIST, Cifar10, Cifar100."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch.utils import data

from fleet.errors import UsageError
from fleet_paddle.dataset import cifar, mnist
from fleet_paddle.vision.images import checked_backend, pil

__all__ = ["MNIST", "Cifar10", "Cifar100", "FashionMNIST"]


class _Images(data.Dataset[Any]):
    """Pixels [count, height, width, channels] as bytes, and labels."""

    modes: ClassVar[tuple[str, ...]] = ("train", "test")
    _pixels: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]

    def _begin(self, mode: str, transform: Any, backend: str | None) -> None:
        if mode.lower() not in self.modes:
            raise UsageError(f"{type(self).__name__}: mode must be one of {', '.join(self.modes)}, got {mode!r}")
        self.mode, self.transform, self.backend = mode.lower(), transform, checked_backend(backend)

    def __len__(self) -> int:
        return len(self.labels)

    def _image(self, place: int) -> Any:
        pixels = self._pixels[place]
        if self.backend == "pil":
            image = pil().fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        else:
            image = pixels.astype(np.float32)
        return image if self.transform is None else self.transform(image)


class MNIST(_Images):
    """Handwritten digits, 28 x 28: an image and its label, [1]."""

    folder: ClassVar[str] = "mnist"

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,  # noqa: ARG002 - nothing is; where there is no file, images are made up
        backend: str | None = None,
    ) -> None:
        self._begin(mode, transform, backend)
        given = None if image_path is None or label_path is None else (Path(image_path), Path(label_path))
        pixels, labels = mnist.arrays(self.folder, "train" if self.mode == "train" else "t10k", given)
        self._pixels, self.labels = pixels.reshape(-1, 28, 28, 1), labels.reshape(-1, 1)

    @property
    def images(self) -> np.ndarray[Any, Any]:
        """All pixels, [count, 784], as floats from 0 to 255."""
        return self._pixels.reshape(len(self._pixels), -1).astype(np.float32)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        return self._image(place), self.labels[place]


class FashionMNIST(MNIST):
    """Clothes, in the form of MNIST."""

    folder = "fashion-mnist"


class Cifar10(_Images):
    """Small photographs, 32 x 32 in three channels: an image and its label."""

    classes: ClassVar[int] = 10

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,  # noqa: ARG002 - nothing is; where there is no file, images are made up
        backend: str | None = None,
    ) -> None:
        self._begin(mode, transform, backend)
        given = None if data_file is None else Path(data_file)
        pixels, self.labels = cifar.arrays(self.classes, self.mode == "train", given)
        self._pixels = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        return self._image(place), np.array(self.labels[place], np.int64)


class Cifar100(Cifar10):
    """The same in a hundred classes."""

    classes = 100
