"""Files as pyarrow reads them, and its errors as one line about the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from fleet.data.places.extras import needed
from fleet.data.places.opening import open, open_as_it_is, packing_of
from fleet.data.places.urls import is_url, local_path
from fleet.errors import UsageError


def source_of(path: str) -> AbstractContextManager[Any]:
    """What pyarrow can read at any place: a local file by itself, a URL through fsspec, a packed file whole."""
    pa = needed("pyarrow", f"files like {path}")
    if packing_of(path) is not None:
        with open(path) as packed:
            return cast(AbstractContextManager[Any], pa.BufferReader(packed.read()))
    source = open_as_it_is(path)
    if is_url(local_path(path)):
        return source
    source.close()
    return cast(AbstractContextManager[Any], pa.OSFile(local_path(path)))


@contextmanager
def damaged(path: str, kind: str) -> Iterator[None]:
    """What pyarrow cannot read, as an error that names the file."""
    pa = needed("pyarrow", f"files like {path}")
    try:
        yield
    except UsageError:
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        text = " ".join(str(error).split())
        raise UsageError(f"{path} is no {kind} file, or damaged: {text[:200]}") from error


def changed(path: str) -> UsageError:
    """For a file that is not any more what it was when it was cut."""
    return UsageError(f"{path} has changed since the job began; leave the files alone until it has ended")
