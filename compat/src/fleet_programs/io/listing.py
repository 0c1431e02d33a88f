"""The side file of a folder whose files have formats that other programs read: size and checksum of each.

    fleet-checksums.json    {"format": "fleet-checksums", ..., "files": [{"name": "fc_0.w_0.npy", ...}, ...]}

A folder without one, as other programs write it, is read as it is. In a folder with one, every file that is read must
be in it and be as it was saved. A save is complete when its side file is there: what then still has the name under
which it was written is found under that, so that a crash leaves the save before or the new one, never some of both.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.fields import Fields
from fleet.checkpoint.files.files import FileInfo, check_file, read_file, reading, write_file
from fleet.checkpoint.folders.seal import require_seal, seal, unseal
from fleet.errors import CheckpointError
from fleet.jobfiles.whole import sync_folder

LISTING = "fleet-checksums.json"
_FORMAT, _VERSION = "fleet-checksums", 1

T = TypeVar("T")

log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


@dataclass(frozen=True)
class Listed:
    """A file as it was saved, and the name under which it was written before it got its own."""

    info: FileInfo
    written_as: str

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {**self.info.to_json(), "written_as": self.written_as}

    @classmethod
    def from_json(cls, fields: Fields) -> Listed:
        """Refuse a name that leads out of the folder."""
        written_as = fields.text("written_as")
        if Path(written_as).name != written_as:
            raise CheckpointError(f"{fields.where} is damaged: {written_as!r} is not the name of a file in that folder")
        return cls(FileInfo.from_json(fields), written_as)


@dataclass(frozen=True)
class Listing:
    """All files that were saved into a folder, by name."""

    folder: Path
    files: Mapping[str, Listed]
    has_others: bool
    """The folder has files of which nobody kept a sum, and what is not listed may be one."""

    @classmethod
    def of(cls, folder: Path) -> Listing:
        """What the side file says, nothing if there is none; CheckpointError if it is damaged."""
        path = folder / LISTING
        if not path.exists():
            return cls(folder, {}, has_others=True)
        with reading(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
            fields, is_sealed = unseal(file.read(), str(path))
        require_seal(fields, is_sealed)
        if (fields.value.get("format"), fields.value.get("format_version")) != (_FORMAT, _VERSION):
            raise CheckpointError(f"{path} is of a newer fleet; load the folder with that")
        listed = [Listed.from_json(item) for item in fields.objects("files")]
        return cls(folder, {one.info.name: one for one in listed}, fields.flag("has_others"))

    def place(self, name: str) -> tuple[Path, FileInfo | None]:
        """Where to read a file, and what it must be; None for one that was there before the first listed save."""
        listed = self.files.get(name)
        if listed is None:
            if self.has_others:
                return self.folder / name, None
            raise CheckpointError(
                f"{self.folder / name} was not saved there: {LISTING} does not have it; delete that file to load the "
                "folder as it is"
            )
        written = self.folder / listed.written_as
        return (written if written.exists() else self.folder / name), listed.info

    def read(self, name: str) -> npt.NDArray[np.uint8] | None:
        """All bytes of a file, compared; None where there is nothing to compare with."""
        return self._compared(name, read_file)

    def check(self, name: str) -> None:
        """Compare a file that nobody reads."""
        self._compared(name, check_file)

    def _compared(self, name: str, read: Callable[[Path, FileInfo], T]) -> T | None:
        path, info = self.place(name)
        if info is None:
            return None
        try:
            return read(path, info)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; put back what was saved, or delete {LISTING} to load the folder as it is"
            ) from None

    def finish(self) -> None:
        """Give those files their names that do not have them yet."""
        for name, listed in self.files.items():
            with suppress(FileNotFoundError):
                os.replace(self.folder / listed.written_as, self.folder / name)
        sync_folder(self.folder)

    def write(self) -> None:
        """Let this be the side file from now on."""
        document = {
            "format": _FORMAT,
            "format_version": _VERSION,
            "has_others": self.has_others,
            "files": [self.files[name].to_json() for name in sorted(self.files)],
        }
        data = seal(document, {"indent": 1}).encode()
        path = self.folder / f".{LISTING}.writing-{token_hex(4)}"
        write_file(path, [data], len(data))
        os.replace(path, self.folder / LISTING)
        sync_folder(self.folder)


def listed_with(folder: Path, written: Mapping[str, Listed], *, begin: bool) -> Listing:
    """The folder's files with those that were written into it under other names; `finish` gives them their own.

    With the side file, which is written unless there is none yet and `begin` is false, the save is complete. One
    process does so at a time.
    """
    for name in written:
        if (folder / name).is_dir():
            raise CheckpointError(f"cannot write {folder / name}: it is a folder; name another")
    is_there, known = (folder / LISTING).exists(), _known(folder)
    known.finish()
    has_others = known.has_others and (bool(known.files) or _has_others(folder, written))
    listing = Listing(folder, {**known.files, **written}, has_others)
    if is_there or begin:
        listing.write()
    return listing


def _known(folder: Path) -> Listing:
    try:
        return Listing.of(folder)
    except CheckpointError as error:
        log.warning("%s; it is begun anew, and what was saved there before is not compared any more", error)
        return Listing(folder, {}, has_others=True)


def _has_others(folder: Path, written: Mapping[str, Listed]) -> bool:
    with os.scandir(folder) as found:
        ours = {*written, LISTING}
        return any(one.is_file() and not one.name.startswith(".") and one.name not in ours for one in found)
