"""Where a server may write and read on behalf of its callers: anywhere, or only inside the folders of FLEET_ROOTS."""

import os
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import Message

from fleet import env
from fleet.errors import UsageError
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.messages import METHODS

PATHS = ("folder", "keys_to")
"""The fields of requests that name what a server writes or reads."""


_PATHS_OF = {
    method: [name for name in PATHS if name in getattr(ps_pb2, f"{method}Request").Header.DESCRIPTOR.fields_by_name]
    for method in METHODS
}


def confine_request(method: str, header: Message) -> None:
    """UsageError if a request names a path outside of the roots; a folder must be named, a list of keys need not be."""
    for name in _PATHS_OF.get(method, ()):
        if (path := getattr(header, name)) or name == "folder":
            confine(path)


def confine(folder: str) -> None:
    """UsageError if there are roots and `folder`, every link and `..` in it followed, is outside of them all."""
    roots = env.FLEET_ROOTS.get()
    if roots is None:
        return
    try:
        real = Path(os.path.realpath(folder))
        is_inside = any(real.is_relative_to(os.path.realpath(root)) for root in roots)
    except (OSError, ValueError):  # a NUL in it
        is_inside = False
    if not is_inside:
        raise UsageError(
            f"the folder {folder!r} is outside of what this server may write and read, {' and '.join(roots)}; choose "
            "one inside, or start the server with another --root (FLEET_ROOTS)"
        )


def set_roots(folders: Sequence[str]) -> None:
    """Take what the command line of a server says, in place of the environment; UsageError if one is no folder."""
    if not folders:
        return
    for folder in folders:
        if not os.path.isdir(folder) or os.pathsep in folder:
            raise UsageError(f"--root {folder}: there is no such folder, or its name has a {os.pathsep!r}")
    env.FLEET_ROOTS.put(os.pathsep.join(map(os.path.abspath, folders)))
