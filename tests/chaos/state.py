"""What a job left: every row with its state and every dense parameter, as one digest; and how often samples counted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from fleet import checkpoint


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
    return found.hexdigest()


def times_trained(folder: Path) -> dict[int, float]:
    """What each row of the table that counts has grown to, by its key."""
    found: dict[int, float] = {}
    for piece in checkpoint.read_manifest(folder).tables["times"]:
        rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
        found |= dict(zip(rows["keys"].tolist(), rows["values"][:, 0].tolist(), strict=True))
    return found
