"""`sparse_embedding`: a table whose rows are on servers, with a policy that says which ids deserve one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError, UsageTypeError
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.lookup import embedding
from fleet_programs.program.notes import ENTRIES_NOTE
from fleet_programs.program.program import default_main_program
from fleet_programs.program.variable import Variable

__all__ = ["sparse_embedding"]


def sparse_embedding(
    input: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,  # noqa: ARG001 - a lookup never makes a row, in training or in evaluation
    entry: Any = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """`embedding` of rows that are on servers only: ids may be any int64.

    `size[0]` is the most distinct ones; 1 sets no limit.

    `entry` is one of `fleet.entries`, for instance CountFilterEntry(10): an id has a row, and is trained, only after
    ten steps that had it. Without one every id has a row from its first step.
    """
    layer = LayerBuilder("sparse_embedding")
    if entry is not None and not (hasattr(entry, "to_json") and hasattr(entry, "inputs")):
        raise UsageTypeError(
            f"sparse_embedding: entry must be CountFilterEntry(...) or ProbabilityEntry(...), got {entry!r}"
        )
    if entry is not None and entry.inputs:
        raise NotSupportedError(
            f"sparse_embedding: {entry.name} needs {' and '.join(entry.inputs)} of each id, which programs do not "
            "send; use CountFilterEntry or ProbabilityEntry"
        )
    out = embedding(input, size, True, True, padding_idx, param_attr, dtype)
    if entry is not None:
        program = default_main_program()
        table = layer.block.ops[-1].input("W")[0]
        entries = program.notes.setdefault(ENTRIES_NOTE, {})
        if entries.setdefault(table, entry.to_json()) != entry.to_json():
            raise layer.error(f"table {table!r} has another entry policy already; give the same one")
    return out
