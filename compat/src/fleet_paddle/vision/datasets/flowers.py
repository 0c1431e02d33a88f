"""Photographs of 102 kinds of flowers: 6 149 for training, 1 020 for testing and as many for validation.

The originals are in `flowers/`: 102flowers.tgz, imagelabels.mat and setid.mat.
"""

from __future__ import annotations

import importlib
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils import data

from fleet.errors import UsageError
from fleet_paddle.dataset.images import blocks
from fleet_paddle.dataset.original_files import original
from fleet_paddle.vision.images import checked_backend, pil

__all__ = ["Flowers"]

_PARTS = {"train": "tstid", "test": "trnid", "valid": "valid"}
_COUNTS = {"train": 6149, "test": 1020, "valid": 1020}
_CLASSES, _SIDE = 102, 64


class Flowers(data.Dataset[Any]):
    """An image and its label, [1], from 1 to 102."""

    def __init__(
        self,
        data_file: str | None = None,
        label_file: str | None = None,
        setid_file: str | None = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,  # noqa: ARG002 - nothing is; where there is no file, images are made up
        backend: str | None = None,
    ) -> None:
        if mode.lower() not in _PARTS:
            raise UsageError(f"Flowers: mode must be one of {', '.join(_PARTS)}, got {mode!r}")
        self.mode, self.transform, self.backend = mode.lower(), transform, checked_backend(backend)
        given = [Path(one) for one in (data_file, label_file, setid_file) if one is not None]
        paths = given if len(given) == 3 else original("flowers", "102flowers.tgz", "imagelabels.mat", "setid.mat")
        self._archive: Path | None = None
        if paths is None:
            made = list(blocks(sorted(_PARTS).index(self.mode) + 7, _COUNTS[self.mode], _CLASSES, 3, _SIDE, 0.5))
            self._pixels = np.concatenate([pixels for pixels, _ in made]).transpose(0, 2, 3, 1)
            self.labels = np.concatenate([labels for _, labels in made]) + 1
        else:
            self._archive = paths[0]
            labels = _read_mat(paths[1])["labels"][0]
            self.indexes = _read_mat(paths[2])[_PARTS[self.mode]][0]
            self.labels = labels[self.indexes - 1]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        image = pil().fromarray(self._pixels[place]) if self._archive is None else self._opened(place)
        if self.backend != "pil":
            image = np.asarray(image).astype(np.float32)
        if self.transform is not None:
            image = self.transform(image)
        return image, np.array([self.labels[place]], np.int64)

    def _opened(self, place: int) -> Any:
        assert self._archive is not None
        name = f"jpg/image_{self.indexes[place]:05d}.jpg"
        with tarfile.open(self._archive) as archive:
            file = archive.extractfile(name)
            if file is None:
                raise UsageError(f"{self._archive} has no {name}; put the original there")
            return pil().open(io.BytesIO(file.read())).convert("RGB")


def _read_mat(path: Path) -> Any:
    try:
        return importlib.import_module("scipy.io").loadmat(path)
    except ImportError:
        raise UsageError(f"Flowers: {path} is a file of MATLAB; reading it needs scipy: pip install scipy") from None
