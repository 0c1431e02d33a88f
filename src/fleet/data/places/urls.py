"""Files behind URLs, by fsspec: memory://, s3://, gs://, hdfs://, http:// and whatever else it knows."""

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from fleet.errors import UsageError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")


def needed(module: str, whatfor: str) -> Any:
    """An optional module, imported. `whatfor` begins the sentence of the error: "Parquet files"."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise UsageError(f"{whatfor} need the package {package}: pip install 'torch-fleet[data]'") from error


def is_url(path: str) -> bool:
    """Whether fsspec is asked for a path. `file://` is not, see `local_path`."""
    return _URL.match(path) is not None


def local_path(path: str) -> str:
    """`file:///data/x` as `/data/x`; other paths as they are."""
    return path.removeprefix("file://") if "::" not in path else path


@contextmanager
def _told(url: str) -> Iterator[None]:
    """What fsspec and the packages behind it raise, as one line about the URL."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {url}") from error
    except ImportError as error:
        raise UsageError(f"{url} cannot be read without another package: {error}") from error
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{url} cannot be read: {text}") from error


def open_url(url: str) -> BinaryIO:
    """The file, open; its bytes can be read at any place."""
    filesystem, path = _at(url)
    with _told(url):
        return cast(BinaryIO, filesystem.open(path, "rb"))


def size_of_url(url: str) -> int:
    """Bytes of a file."""
    filesystem, path = _at(url)
    with _told(url):
        return _size(url, filesystem.info(path))


def list_url(url: str) -> tuple[str | None, list[tuple[str, int]]]:
    """What lies in a folder or matches a glob, as URLs with sizes, and what these begin with; or the file, and None.

    A `?` of a web address is no glob.
    """
    filesystem, path = _at(url)
    with _told(url):
        if re.search(r"\*" if url.startswith("http") else r"[*?\[]", url):
            found = list(filesystem.glob(path, detail=True).values())
            folders = [one for one in found if one["type"] == "directory"]
            found += [inner for one in folders for inner in filesystem.ls(one["name"], detail=True)]
            start: str | None = fixed_part(url)
        elif filesystem.isdir(path):
            found, start = filesystem.ls(path, detail=True), url.rstrip("/")
        else:
            found, start = [filesystem.info(path)], None
        named = {_whole(url, filesystem, one["name"]): one for one in found if one["type"] != "directory"}
        return start, [(name, _size(name, one)) for name, one in sorted(named.items())]


def fixed_part(pattern: str) -> str:
    """The folder that everything which matches a glob lies below."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]


def _at(url: str) -> tuple[Any, str]:
    fsspec = needed("fsspec.core", f"URLs like {url}")
    with _told(url):
        filesystem, path = fsspec.url_to_fs(url)
        return filesystem, str(path)


def _whole(url: str, filesystem: Any, name: str) -> str:
    """A name of fsspec as a URL that leads to it again, through the same chain (`simplecache::s3://...`)."""
    found = str(filesystem.unstrip_protocol(name))
    first, chained, rest = url.partition("::")
    if not chained:
        return found
    return f"{found}::{rest}" if "://" in first else f"{first}::{found}"


def _size(url: str, info: dict[str, Any]) -> int:
    if info.get("size") is None:
        raise UsageError(f"{url} does not tell its size, without which work cannot be divided; copy it to a disk first")
    return int(info["size"])
