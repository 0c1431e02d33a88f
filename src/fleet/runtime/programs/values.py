"""What servers saved, as the parameters of a program that trains nothing: values alone, whatever rule they had."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fleet import checkpoint
from fleet.errors import CheckpointError
from fleet.static.executor.scope import Scope
from fleet.static.program import Program
from fleet.static.variable import Variable

Values = dict[str, NDArray[Any]]


def values_of(program: Program, folder: Path, scope: Scope) -> Values:
    """The values of a program's variables in a checkpoint that servers wrote, as far as they were on servers.

    Rows that the servers never had begin as `scope` has them.
    """
    manifest = checkpoint.read_manifest(folder)
    blocks = {block.parameter: block for piece in manifest.dense for block in piece.blocks}
    found: Values = {}
    for var in program.list_vars():
        if var.persistable and var.name in manifest.tables:
            found[var.name] = _rows(var, manifest, folder, scope)
        elif var.persistable and var.name in blocks:
            size, known = prod(var.shape), blocks[var.name]
            wanted = checkpoint.Block(var.name, 0, size, size, known.rule, known.arrays, known.scalars)
            found[var.name] = checkpoint.load_dense(manifest, folder, [wanted])[0].values.reshape(var.shape)
    return found


def _rows(var: Variable, manifest: checkpoint.Manifest, folder: Path, scope: Scope) -> NDArray[Any]:
    if var.name not in scope:
        raise CheckpointError(f"{var.name!r} has no first values; run the startup program before load_persistables()")
    height, width = var.shape
    values: NDArray[Any] = scope.tensors[var.name].cpu().numpy().copy()
    for piece in manifest.tables[var.name]:
        rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
        keys = rows["keys"]
        if piece.form.width != width or (len(keys) and not 0 <= keys.min() <= keys.max() < height):
            raise CheckpointError(
                f"table {var.name!r} in {folder} does not fit shape {list(var.shape)}: it is {piece.form.width} wide, "
                f"with ids {keys.min(initial=0)} to {keys.max(initial=0)}; load it into the program it is from"
            )
        values[keys] = rows["values"]
    return values
