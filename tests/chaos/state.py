"""What a job left: rows and dense parameters with their state, buffers, as one digest; how often samples counted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fleet import checkpoint
from fleet.checkpoint.state.whole import read_kept
from fleet.ps.durable import storage
from fleet.ps.held.holdings import Holdings
from fleet.ps.job.spec import JobSpec


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


def digest_of_rows(folder: Path, *, is_exact: bool) -> dict[str, str]:
    """A digest of each table, also of those whose rows lie on disks, however many servers have saved them.

    Not `is_exact`: of keys with their shows or, where none are counted, values; the rest hangs on who came first.
    """
    manifest = checkpoint.read_manifest(checkpoint.find(folder))
    digests = {"version": str(manifest.version)}
    for name, rows in _all_rows(folder, json.dumps(manifest.job)):
        found, order = hashlib.sha256(), np.argsort(rows["keys"])
        fields = sorted(rows) if is_exact else ["keys", "shows" if "shows" in rows else "values"]
        for field in fields:
            array = rows[field]
            found.update(field.encode())
            found.update(np.ascontiguousarray(array[order] if len(array) == len(order) else array).tobytes())
        digests[name] = f"{len(order)} rows {found.hexdigest()[:16]}"
    return digests


def _all_rows(folder: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and all rows of each table, brought together in memory as by one server."""
    job = JobSpec.from_json(text)
    tables = tuple(replace(spec, memory=0, max_bytes=0) for spec in job.tables)
    holdings = Holdings(replace(job, num_servers=1, tables=tables), 0)
    storage.load(holdings, folder)
    for table in holdings.tables:
        yield table.name, table.export(0, table.num_shards)


def times_trained(folder: Path) -> dict[int, float]:
    """What each row of the table that counts has grown to, by its key."""
    found: dict[int, float] = {}
    for piece in checkpoint.read_manifest(folder).tables["times"]:
        rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
        found |= dict(zip(rows["keys"].tolist(), rows["values"][:, 0].tolist(), strict=True))
    return found
