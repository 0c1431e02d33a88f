"""`data`: the variables that a batch is fed to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError, UsageError
from fleet_programs.expressions.callsite import callsite
from fleet_programs.expressions.names import LOD
from fleet_programs.program.program import default_main_program
from fleet_programs.program.variable import Variable

__all__ = ["data"]


def data(
    name: str,
    shape: Sequence[int | None],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
    stop_gradient: bool = True,
) -> Variable:
    """A variable to feed. The size of the batch is put before `shape` unless a size of it is -1 or None."""
    if type is not None:
        raise NotSupportedError("data: type must be left out; every variable is a tensor")
    sizes = [-1 if size is None else int(size) for size in shape]
    if append_batch_size and not any(size < 0 for size in sizes):
        sizes = [-1, *sizes]
    return fed(name, sizes, dtype, lod_level, stop_gradient)


def fed(
    name: str, shape: Sequence[int | None], dtype: Any = "float32", lod_level: int = 0, stop_gradient: bool = True
) -> Variable:
    """A variable to feed, with exactly this shape; None or -1 is a size that each batch decides.

    With `lod_level=1` it is ragged: a batch is fed as values and offsets, and `shape` is that of the values. With
    `lod_level=2` its rows are in groups.
    """
    site = callsite()
    where = f"{site}: " if site else ""
    if not name:
        raise UsageError(f"{where}data: name must be text of at least one character, got {name!r}")
    if lod_level not in (0, 1, 2):
        raise NotSupportedError(
            f"{where}data {name!r}: lod_level must be 0, 1 or 2, got {lod_level}; flatten deeper levels"
        )
    sizes = [-1 if size is None else int(size) for size in shape]
    if any(size < -1 or size == 0 for size in sizes):
        raise UsageError(f"{where}data {name!r}: sizes must be above 0, or -1, got {list(shape)}")
    block = default_main_program().global_block()
    offsets = None
    for level in range(lod_level, 0, -1):
        outer, offsets = offsets, name + LOD * level
        block.create_var(offsets, [-1], "int64", lod=outer, is_data=True, stop_gradient=True)
    return block.create_var(name, sizes, dtype, lod=offsets, is_data=True, stop_gradient=stop_gradient)
