"""Increments: saves that have only what changed since another one, their parent, which their manifest names.

    FOLDER/manifest.json                     a whole save, the base
    FOLDER/increment-00000001/manifest.json  parent: "..", its save and the sum of its manifest
    FOLDER/increment-00000002/manifest.json  parent: "../increment-00000001"

Steps of `fleet.Checkpoint` lie beside each other, and name each other so. A whole save into FOLDER takes the place of
all of it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from fleet.checkpoint.files.files import reading
from fleet.checkpoint.folders.folder import INCREMENT, find, read_contents
from fleet.checkpoint.folders.manifest import Manifest, Parent
from fleet.errors import CheckpointError


class ChainLink(NamedTuple):
    """One save of a chain."""

    folder: Path
    manifest: Manifest


def newest(folder: str | os.PathLike[str]) -> Path:
    """Where a checkpoint is: the newest increment in a folder of `fleet.save_persistables`, or the folder itself."""
    where = find(folder)
    inside = increments_in(where)
    return find(inside[-1]) if inside else where


def increments_in(folder: Path) -> list[Path]:
    """The increments in the folder of their base, in order."""
    try:
        names = sorted(filter(INCREMENT.fullmatch, os.listdir(folder)))
    except OSError:
        return []
    return [folder / name for name in names]


def next_increment(base: Path) -> Path:
    """The folder of the next increment in the folder of their base."""
    inside = increments_in(base)
    number = int(inside[-1].name.rpartition("-")[2]) if inside else 0
    return base / f"increment-{number + 1:08}"


def read_chain(folder: str | os.PathLike[str]) -> list[ChainLink]:
    """The saves of which a checkpoint is made, its base first; CheckpointError if one is missing, or another."""
    where = newest(folder)
    links = [ChainLink(where, read_contents(where, Manifest))]
    while (parent := links[0].manifest.parent) is not None:
        links.insert(0, _parent_of(links[0], parent))
    return links


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder that `find` gave and that holds a checkpoint alone; CheckpointError for an increment."""
    manifest = read_contents(folder, Manifest)
    if manifest.parent is not None or increments_in(folder):
        what = "holds increments of" if manifest.parent is None else "is an increment on"
        raise CheckpointError(
            f"{folder} {what} another save, and a whole one is needed here; fold it: "
            f"python -m fleet.checkpoint compact {folder}"
        )
    return manifest


def parent_at(folder: Path, of: Path) -> Parent:
    """What the manifest of an increment in `of` says about the save in `folder` that it builds on."""
    text = _text(folder)
    return Parent(os.path.relpath(folder, of), Manifest.from_text(text, str(folder / Manifest.FILE)).save, _sum(text))


def _parent_of(child: ChainLink, parent: Parent) -> ChainLink:
    where = Path(os.path.normpath(child.folder / parent.folder))
    what = f"{child.folder} has only what changed since save {parent.save} in {where}"
    try:
        text = _text(find(where))
    except CheckpointError as error:
        raise CheckpointError(f"{what}, and that cannot be read: {error}; bring it back") from None
    found = ChainLink(find(where), Manifest.from_text(text, str(where / Manifest.FILE)))
    if parent.digest not in (_sum(text), *found.manifest.formerly):
        raise CheckpointError(f"{what}, and there is another save now; bring the one it builds on back")
    for name in ("job", "num_servers"):
        if getattr(found.manifest, name) != getattr(child.manifest, name):
            raise CheckpointError(f"{what}, and that is of another {name}; bring the one it builds on back")
    return found


def _text(folder: Path) -> bytes:
    with reading(folder / Manifest.FILE) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return file.read()


def _sum(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
