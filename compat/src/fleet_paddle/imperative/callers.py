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

_TORCH = Path(torch.__file__).parent
_PACKAGES = (_TORCH, _TORCH.with_name("torchvision"), _TORCH.with_name("torchaudio"), Path(fleet.__file__).parent)
_FOLDERS = tuple(f"{folder}{os.sep}" for folder in _PACKAGES)


class _Files(dict[str, bool]):
    """Known by name after the first time, which costs less than to compare folders at each operator."""

    def __missing__(self, file: str) -> bool:
        means_torch = self[file] = file.startswith(_FOLDERS)
        return means_torch


MEANS_TORCH = _Files()
"""Whether the code of a file, `frame.f_code.co_filename`, means torch's methods."""
