"""What `paddle.utils` has for scripts and libraries: imports that may fail, words for what is old, files at hand."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from fleet.errors import UsageError
from fleet_paddle.dataset.common import download, md5file

F = TypeVar("F", bound=Callable[..., Any])

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """The module; where it is not installed, an ImportError that says `err_msg`, or how to install it."""
    try:
        return importlib.import_module(module_name)
    except ImportError as missing:
        text = err_msg or f"{module_name} is not installed; use pip install {module_name.partition('.')[0]}"
        raise ImportError(text) from missing


def deprecated(update_to: str = "", since: str = "", reason: str = "", level: int = 0) -> Callable[[F], F]:
    """Marks a function as old: a call warns, or with `level` 2 is refused; `update_to` names what to call instead."""

    def mark(function: F) -> F:
        text = f"{function.__module__}.{function.__qualname__} is deprecated"
        text += f" since {since}" if since else ""
        text += f"; use {update_to}" if update_to else ""
        text += f". {reason}" if reason else ""

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if level == 2:
                raise RuntimeError(text)
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*args, **named)

        return call  # type: ignore[return-value]

    return mark


def get_path_from_url(
    url: str, root_dir: str, md5sum: str | None = None, check_exist: bool = True, decompress: bool = True
) -> str:
    """Where the file of a URL lies below `root_dir`, or the folder that its archive was unpacked to.

    Nothing is downloaded or unpacked, so it must be there whether or not `check_exist` asks for it.
    """
    del check_exist
    path = Path(root_dir) / url.rsplit("/", 1)[-1]
    packed = decompress and path.name.endswith(_ARCHIVES)
    places = _unpacked(path) if decompress else []
    if found := next((place for place in places if place.is_dir()), None):
        return str(found)
    if packed or not path.is_file():
        where = f"unpack it to {places[0]}" if packed else f"put it at {path}"
        raise UsageError(f"{url}: nothing is downloaded here; {where}")
    if md5sum is not None and md5file(path) != md5sum:
        raise UsageError(f"{path} is not the file of {url}: its MD5 checksum is {md5file(path)}, not {md5sum}")
    return str(path)


def _unpacked(path: Path) -> list[Path]:
    """Folders that an archive may have been unpacked to: its name without the ending, or up to the first dot."""
    whole = next((path.name.removesuffix(end) for end in _ARCHIVES if path.name.endswith(end)), path.name)
    names = dict.fromkeys((whole, path.name.partition(".")[0]))
    return [path.with_name(name) for name in names if name not in ("", path.name)]


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """Where weights with the URL's file name lie in FLEET_DATA_HOME/weights; nothing is downloaded."""
    return download(url, "weights", md5sum)


def one_endpoint_a_machine(endpoints: list[str]) -> set[str]:
    """The first endpoint of each machine: who should fetch a file that all processes there share."""
    first: dict[str, str] = {}
    for endpoint in endpoints:
        first.setdefault(endpoint.rpartition(":")[0], endpoint)
    return set(first.values())
