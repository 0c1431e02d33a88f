"""The version whose names Fleet has under `paddle`; Fleet's own is `fleet.__version__`."""

from __future__ import annotations

import torch

from fleet._version import __version__ as _own

__all__ = ["commit", "cuda", "cudnn", "full_version", "istaged", "major", "minor", "mkl", "patch", "rc", "show"]

full_version = "2.0.0"
major, minor, patch, rc = "2", "0", "0", "0"
istaged = True
commit = f"fleet-{_own}"


def mkl() -> str:
    """Whether torch computes with MKL: 'ON' or 'OFF'."""
    return "ON" if torch.backends.mkl.is_available() else "OFF"


def cuda() -> str:
    """The version of CUDA that torch was built for, or 'False'."""
    return str(torch.version.cuda or False)


def cudnn() -> str:
    """The version of cuDNN that torch has, or 'False'."""
    return str(torch.backends.cudnn.version() if torch.version.cuda else False)


def show() -> None:
    """Print them."""
    print(f"full_version: {full_version}\ncommit: {commit}\ncuda: {cuda()}\ncudnn: {cudnn()}")
