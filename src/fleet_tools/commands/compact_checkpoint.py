"""Folds a save and the increments on it into one whole save, which takes their place at once."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleet.checkpoint import (
    ChainLink,
    Manifest,
    Piece,
    StepFolders,
    commit,
    pieces_from_text,
    read_chain,
    read_contents,
    saving,
)
from fleet.errors import CheckpointError, UsageError
from fleet.ps.durable import storage
from fleet.ps.held.holdings import make_holdings
from fleet.ps.job.spec import JobSpec


def compact(folder: Path) -> str:
    """Do it, one server's part after the other in memory; what is there now, in words.

    CheckpointError, and everything stays as it was, if a save is missing or damaged.
    """
    target = _target(folder)
    chain = read_chain(target)
    if len(chain) == 1:
        return f"{target} is one whole save already: nothing was done"
    with saving(target) as writing:
        made = commit(writing, target, _folded(chain, writing))
    rows = sum(sum(piece.rows for piece in pieces) for pieces in read_chain(made)[0].manifest.tables.values())
    return f"{target} is one whole save now, of {rows:,} rows: {len(chain) - 1} increments are folded into it"


def _target(folder: Path) -> Path:
    """The folder that the whole save takes: of steps the newest, on which nothing builds."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the one that was saved")
    folder = folder.resolve()
    if folder.name.startswith("increment-") and (folder.parent / Manifest.FILE).exists():
        raise UsageError(f"{folder} is one increment of several; give {folder.parent}, which holds them all")
    if not (folder / Manifest.FILE).exists() and (steps := StepFolders(folder, Manifest).complete()):
        return StepFolders(folder, Manifest).path(steps[0])
    for other in folder.parent.glob("step-*"):
        if _parent_of(other) == folder:
            raise UsageError(f"{other} builds on {folder}; give {other}, or {folder.parent} for the newest")
    return folder


def _parent_of(folder: Path) -> Path | None:
    try:
        parent = read_contents(folder, Manifest).parent
    except CheckpointError:  # it is another's, or damaged
        return None
    return None if parent is None else (folder / parent.folder).resolve()


def _folded(chain: Sequence[ChainLink], writing: Path) -> Manifest:
    """Load and save what each server held, and copy what else belongs to the newest save."""
    newest = chain[-1]
    job = JobSpec.from_json(json.dumps(newest.manifest.job))
    pieces: list[Piece] = []
    for server in range(newest.manifest.num_servers):
        holdings = make_holdings(job, server, "cpu")
        storage.load(holdings, newest.folder)
        pieces += pieces_from_text(storage.save(holdings, writing, values_only=False), f"server {server}")
    for info in newest.manifest.others:
        path = writing / info.name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(newest.folder / info.name, path)
        except OSError:  # a file system without links
            shutil.copyfile(newest.folder / info.name, path)
    return replace(newest.manifest, pieces=tuple(pieces), parent=None)
