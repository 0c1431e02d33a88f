"""What servers saved, as the parameters of a program that trains nothing: values alone, whatever rule they had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fleet import checkpoint
from fleet.errors import CheckpointError
from fleet_programs.executor.scope import Scope
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

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
            found[var.name] = first_values(var, scope)
            for rows in rows_of(var, manifest, folder):
                found[var.name][rows["keys"]] = rows["values"]
        elif var.persistable and var.name in blocks:
            size, known = prod(var.shape), blocks[var.name]
            wanted = checkpoint.BlockForm(var.name, 0, size, size, known.rule, known.arrays, known.scalars)
            found[var.name] = checkpoint.load_dense(manifest, folder, [wanted])[0].values.reshape(var.shape)
    return found


def first_values(var: Variable, scope: Scope) -> NDArray[Any]:
    """A copy of a scope's values of a table: those of the rows that servers never had."""
    if var.name not in scope:
        raise CheckpointError(f"{var.name!r} has no first values; run the startup program before load_persistables()")
    values: NDArray[Any] = scope.tensors[var.name].cpu().numpy().copy()
    return values


def rows_of(
    var: Variable, manifest: checkpoint.Manifest, folder: Path, rule: str | None = None
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """The rows of a table in a checkpoint, piece by piece: "keys", "values" and "state".

    CheckpointError unless they fit the variable and, where one is given, the rule.
    """
    height, width = var.shape
    checkpoint.refuse_runs(manifest, folder, var.name)
    for piece in manifest.tables[var.name]:
        form = piece.form
        if form.width != width or rule not in (None, form.rule):
            raise CheckpointError(
                f"table {var.name!r} is {form.width} wide with rule {form.rule} in {folder}, and {width} wide"
                f"{'' if rule is None else f' with rule {rule}'} here; load it into the program it is from"
            )
        rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
        keys = rows["keys"]
        if len(keys) and not 0 <= keys.min() <= keys.max() < height:
            outside = keys[(keys < 0) | (keys >= height)][0]
            raise CheckpointError(
                f"table {var.name!r} in {folder} has id {outside}, and here it has rows 0 to {height - 1}; a table of "
                "arbitrary ids needs servers"
            )
        yield rows
