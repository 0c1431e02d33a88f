"""What scripts use beside the datasets: where files are, and their checksums. Nothing is downloaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fleet.errors import UsageError
from fleet_paddle.dataset.original_files import folder

__all__ = ["DATA_HOME", "download", "md5file"]  # noqa: F822 - the first is made below


def md5file(fname: str | Path) -> str:
    """The MD5 checksum of a file."""
    with open(fname, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(url: str, module_name: str, md5sum: str | None = None, save_name: str | None = None) -> str:
    """The path of a file that was put there before; UsageError with that path if it was not, or is another file."""
    path = folder(module_name) / (save_name or url.rsplit("/", 1)[-1])
    if not path.is_file():
        raise UsageError(f"there is no {path}, and nothing is downloaded; put {url} there")
    if md5sum is not None and md5file(path) != md5sum:
        raise UsageError(f"{path} is not the file of {url}: its MD5 checksum is {md5file(path)}, not {md5sum}")
    return str(path)


def __getattr__(name: str) -> str:
    if name == "DATA_HOME":  # when it is asked for: FLEET_DATA_HOME may be set before that
        return str(folder(""))
    raise AttributeError(f"module 'fleet_paddle.dataset.common' has no {name!r}")
