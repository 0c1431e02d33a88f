"""What a job left: rows and dense parameters with their state, buffers, as one digest; how often samples counted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from fleet import checkpoint
from fleet.checkpoint.state.whole import read_kept


def digest_of(folder: Path) -> str:
    """The same for two checkpoints if they hold the same, bit for bit, in whatever order rows lie in them."""
    manifest = checkpoint.read_manifest(folder)
    found = hashlib.sha256(f"version {manifest.version}".encode())
    for name, pieces in sorted(manifest.tables.items()):
        parts = [checkpoint.read_piece(folder / piece.file.name, piece.file) for piece in pieces]
        order = np.argsort(np.concatenate([part["keys"] for part in parts]))
        for field in sorted(parts[0]):
            array = np.concatenate([part[field] for part in parts])
            found.update(f"{name} {field}".encode())
            found.update(np.ascontiguousarray(array[order] if len(array) == len(order) else array).tobytes())
    for piece in manifest.dense:
        for field, array in sorted(checkpoint.read_piece(folder / piece.file.name, piece.file).items()):
            found.update(f"dense {field}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
    for name, (form, bits) in sorted(read_kept(manifest, folder).items()):
        found.update(f"kept {name} {form}".encode() + np.ascontiguousarray(bits).tobytes())
    return found.hexdigest()


def rows_of(folder: Path) -> str:
    """A digest of all keys with their shows or, where none are counted, values: those hang on who came first."""
    manifest, found = checkpoint.read_manifest(folder), hashlib.sha256()
    for name, pieces in sorted(manifest.tables.items()):
        parts = [checkpoint.read_piece(folder / piece.file.name, piece.file) for piece in pieces]
        order = np.argsort(np.concatenate([part["keys"] for part in parts]))
        for field in ("keys", "shows" if "shows" in parts[0] else "values"):
            array = np.concatenate([part[field] for part in parts])[order]
            found.update(f"{name} {field}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def times_trained(folder: Path) -> dict[int, float]:
    """What each row of the table that counts has grown to, by its key."""
    found: dict[int, float] = {}
    for piece in checkpoint.read_manifest(folder).tables["times"]:
        rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
        found |= dict(zip(rows["keys"].tolist(), rows["values"][:, 0].tolist(), strict=True))
    return found
