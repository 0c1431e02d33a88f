"""Which files appear in some folders, told by the kernel at once: who polls misses those that are soon gone."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from pathlib import Path

_CREATED, _MOVED_HERE = 0x100, 0x80
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class NewFiles:
    """The names that appear in folders, in the order in which they do."""

    def __init__(self) -> None:
        self._file = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._file >= 0, os.strerror(ctypes.get_errno())
        self._folders: dict[int, Path] = {}

    def watch(self, folder: Path) -> list[Path]:
        """Look into this one, too, as soon as it is there: what is in it then. Again it changes nothing."""
        if folder in self._folders.values():
            return []
        number = _libc.inotify_add_watch(self._file, os.fsencode(folder), _CREATED | _MOVED_HERE)
        if number < 0:
            return []
        self._folders[number] = folder
        return list(folder.iterdir())

    def wait(self, timeout_s: float) -> list[Path]:
        """What has appeared, when something has; nothing after this time."""
        if not select.select([self._file], [], [], timeout_s)[0]:
            return []
        data, found, at = os.read(self._file, 1 << 16), [], 0
        while at < len(data):
            number, _, _, size = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + size].rstrip(b"\0")
            found.append(self._folders[number] / os.fsdecode(name))
            at += _EVENT.size + size
        return found

    def close(self) -> None:
        """Let go of it."""
        os.close(self._file)
