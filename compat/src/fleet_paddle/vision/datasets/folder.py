"""Images in folders: `DatasetFolder`, one folder for each class, and `ImageFolder`, all that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils import data

from fleet.errors import UsageError
from fleet_paddle.vision.images import image_load

__all__ = ["DatasetFolder", "ImageFolder"]

_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

Wanted = Callable[[str], bool] | None


def _files(root: str, extensions: Sequence[str] | None, is_valid_file: Wanted) -> list[str]:
    """The files below a folder that are wanted, in order."""
    if extensions is not None and is_valid_file is not None:
        raise UsageError("vision.datasets: give extensions or is_valid_file, one of them")
    endings = tuple(extensions or _ENDINGS)
    is_wanted = is_valid_file or (lambda path: path.lower().endswith(endings))
    found = [os.path.join(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names]
    return sorted(path for path in found if is_wanted(path))


class DatasetFolder(data.Dataset[Any]):
    """A sample for each file below `root/CLASS/`: what `loader` makes of it, and the number of its class."""

    def __init__(
        self,
        root: str,
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Any = None,
        is_valid_file: Wanted = None,
    ) -> None:
        self.root, self.transform, self.loader = root, transform, loader or image_load
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = [
            (path, number)
            for name, number in self.class_to_idx.items()
            for path in _files(os.path.join(root, name), extensions, is_valid_file)
        ]
        if not self.samples:
            raise UsageError(f"DatasetFolder: there are no files of images below the folders of {root}")
        self.targets = [number for _, number in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> tuple[Any, int]:
        path, target = self.samples[place]
        sample = self.loader(path)
        return (sample if self.transform is None else self.transform(sample)), target


class ImageFolder(data.Dataset[Any]):
    """A list of one image for each file below `root`, whatever folder it is in."""

    def __init__(
        self,
        root: str,
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Any = None,
        is_valid_file: Wanted = None,
    ) -> None:
        self.root, self.transform, self.loader = root, transform, loader or image_load
        self.samples = _files(root, extensions, is_valid_file)
        if not self.samples:
            raise UsageError(f"ImageFolder: there are no files of images below {root}")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> list[Any]:
        sample = self.loader(self.samples[place])
        return [sample if self.transform is None else self.transform(sample)]
