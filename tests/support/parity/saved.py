"""What a checkpoint holds, in a form that says nothing of servers: two of them can be compared bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet import checkpoint
from support.fake_table import in_order, joined

Arrays = dict[str, npt.NDArray[Any]]


def saved(folder: Path) -> Arrays:
    """Every array of a checkpoint: columns of tables by ascending key, dense parameters and their state whole."""
    where = checkpoint.find(folder)
    manifest = checkpoint.read_manifest(where)
    found: Arrays = {}
    for name, pieces in manifest.tables.items():
        rows = in_order(joined([checkpoint.read_piece(where / piece.file.name, piece.file) for piece in pieces]))
        found |= {f"table {name}, {column}": array for column, array in rows.items()}
    for parameter, blocks in _blocks(manifest).items():
        size = blocks[-1].end
        data = checkpoint.load_dense(
            manifest,
            where,
            [checkpoint.BlockForm(parameter, 0, size, size, blocks[0].rule, blocks[0].arrays, blocks[0].scalars)],
        )[0]
        found[f"dense {parameter}, values"] = data.values
        found[f"dense {parameter}, scalars"] = data.scalars
        found |= {f"dense {parameter}, state {number}": array for number, array in enumerate(data.arrays)}
    return found


def differences(one: Arrays, other: Arrays) -> list[str]:
    """Names of the arrays that are not the same bits in both."""
    different = sorted(one.keys() ^ other.keys())
    for name in sorted(one.keys() & other.keys()):
        same = one[name].dtype == other[name].dtype and one[name].shape == other[name].shape
        if not same or one[name].tobytes() != other[name].tobytes():
            different.append(name)
    return different


def column(arrays: Arrays, table: str, name: str) -> dict[int, Any]:
    """One column of a table by key."""
    keys = arrays[f"table {table}, keys"]
    return dict(zip(keys.tolist(), np.asarray(arrays[f"table {table}, {name}"]), strict=True))


def _blocks(manifest: checkpoint.Manifest) -> dict[str, list[checkpoint.BlockForm]]:
    found: dict[str, list[checkpoint.BlockForm]] = {}
    for piece in manifest.dense:
        for block in piece.blocks:
            found.setdefault(block.parameter, []).append(block)
    return {name: sorted(blocks, key=lambda block: block.begin) for name, blocks in sorted(found.items())}
