"""How far a journal goes, written down beside it: a journal that has lost whole records at its end looks like one that
ends there.

    magic, checksum of what follows, boot of the machine, number of the last record, of the last one that was synced

It is written after each record, and costs no more than that: nobody waits until the disk has it. As long as the machine
runs, the journal must go as far as the last record; after a loss of power, as far as the last one that was synced.
"""

import logging
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fleet._native import crc32c
from fleet.ps.journal.files import MARK_NAME as NAME

_FORM = struct.Struct("<II36sQQ")
_CHECKED_FROM = 8
_MAGIC = 0x314D4C46  # "FLM1"
_BOOT = Path("/proc/sys/kernel/random/boot_id")

_log = logging.getLogger(__name__)


class Mark(NamedTuple):
    """What a mark says."""

    boot: bytes
    last: int
    synced: int

    @property
    def least(self) -> int:
        """The record that the journal must have at least."""
        return self.last if self.boot and self.boot == _boot() else self.synced


class MarkWriter:
    """The mark of a journal that is open; one thread at a time writes."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._boot = _boot()

    def write(self, last: int, synced: int) -> None:
        """Note how far the journal goes; where that cannot be noted, an earlier note stays, which asks for less."""
        told = struct.pack("<36sQQ", self._boot, last, min(last, synced))
        with suppress(OSError):
            os.pwrite(self._file, struct.pack("<II", _MAGIC, crc32c(told)) + told, 0)

    def sync(self) -> None:
        """Return when the disk has it, or does not take it."""
        with suppress(OSError):
            os.fdatasync(self._file)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._file)


def read_mark(folder: Path) -> Mark | None:
    """The mark beside a journal; None where there is none that can be read, as beside those of earlier versions."""
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    if why := _why_damaged(data):
        _log.warning("%s %s: nothing tells whether the end of the journal is there", folder / NAME, why)
        return None
    return Mark(*_FORM.unpack(data)[2:])


def damage_of_mark(folder: Path) -> str | None:
    """What is wrong with the mark, in one line; None if nothing is, or there is none."""
    try:
        why = _why_damaged((folder / NAME).read_bytes())
    except FileNotFoundError:
        return None
    return f"{folder / NAME} {why}" if why else None


def _why_damaged(data: bytes) -> str | None:
    """What is wrong with the bytes of a mark; they are written in one piece."""
    if len(data) == _FORM.size:
        magic, checksum, *_ = _FORM.unpack(data)
        if magic == _MAGIC and checksum == crc32c(data[_CHECKED_FROM:]):
            return None
    return "is damaged: it is not what was written"


def _boot() -> bytes:
    """A name for the time since the machine was started; empty where the system has none."""
    try:
        return _BOOT.read_bytes().strip()[:36]
    except OSError:
        return b""
