"""Everything of a checkpoint of servers in one process, without the state of rules: for a model that is only used."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.forms import Form
from fleet.checkpoint.folders.chain import ChainLink
from fleet.checkpoint.folders.manifest import Manifest
from fleet.checkpoint.state.dense import read_blocks
from fleet.checkpoint.state.export import widen
from fleet.checkpoint.state.kept import load_kept
from fleet.checkpoint.state.parts import parts_of
from fleet.errors import CheckpointError

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


def read_rows(chain: Sequence[ChainLink], table: str) -> tuple[Keys, Floats]:
    """The rows of a table, all servers' together: keys in ascending order, and values as float32."""
    parts, folder = parts_of(chain, table), chain[-1].folder
    for link in chain:
        refuse_runs(link.manifest, link.folder, table)
    form = parts[0].pieces[0].form
    keys = np.empty(sum(part.most_rows for part in parts), np.int64)
    values = np.empty((len(keys), form.width), np.float32)
    at = 0
    for saved in (one for part in parts for one in part.rows()):
        end = at + len(saved.rows["keys"])
        keys[at:end] = saved.rows["keys"]
        values[at:end] = widen(saved.rows["values"], form.dtype)
        at = end
    order = np.argsort(keys[:at], kind="stable")
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        raise CheckpointError(f"{folder} is damaged: table {table!r} has a key twice")
    return keys, values[order]


def refuse_runs(manifest: Manifest, folder: Path, table: str) -> None:
    """CheckpointError if rows of a table are in sealed files, which only servers read."""
    if manifest.runs(table):
        raise CheckpointError(
            f"table {table!r} in {folder} has {manifest.rows(table):,} rows, most of them in files of servers with "
            "memory=...; load it into a job with servers, and save an inference copy there"
        )


def read_dense_values(manifest: Manifest, folder: Path) -> dict[str, Floats]:
    """The values of every dense parameter, flat."""
    found: dict[str, Floats] = {}
    for piece in manifest.dense:
        for block, values in read_blocks(folder, piece):
            whole = found.setdefault(block.parameter, np.empty(block.size, np.float32))
            whole[block.begin : block.end] = values
    return found


def read_kept(manifest: Manifest, folder: Path) -> dict[str, tuple[Form, npt.NDArray[Any]]]:
    """Every tensor that servers only kept, with its bits."""
    names = [(name, form) for piece in manifest.kept for name, form in piece.tensors]
    found = load_kept(manifest, folder, names)
    return {name: (form, bits) for (name, form), bits in zip(names, found, strict=True)}
