"""Whose code calls a method that torch and Paddle mean differently.

Code of torch and of Fleet that is handed one of our tensors means torch's: `torch.split(x, 2)` asks for pieces of size
2 by `x.split(2, 0)`, and `step += 1` in an optimizer changes what its state holds. All other code is a script's. The
file that the calling code is in tells which it is, by the folder of an installed package: a module's name says nothing,
since anybody may call theirs `torch_utils`.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

import fleet
import fleet_programs

_TORCH = Path(torch.__file__).parent
_PACKAGES = (_TORCH, _TORCH.with_name("torchvision"), _TORCH.with_name("torchaudio"), Path(fleet.__file__).parent)
_OURS = (Path(__file__).parents[1], Path(fleet_programs.__file__).parent)


class _Files(dict[str, bool]):
    """Known by name after the first time, which costs less than to compare folders at each operator."""

    def __init__(self, packages: tuple[Path, ...]) -> None:
        super().__init__()
        self.folders = tuple(f"{folder}{os.sep}" for folder in packages)

    def __missing__(self, file: str) -> bool:
        is_inside = self[file] = file.startswith(self.folders)
        return is_inside


MEANS_TORCH = _Files(_PACKAGES)
"""Whether the code of a file, `frame.f_code.co_filename`, means torch's methods."""
KEEPS_NUMBERS = _Files((*_PACKAGES, *_OURS))
"""Whether a number is without dimensions for the code of a file: kernels are written so. A script gets shape [1]."""
