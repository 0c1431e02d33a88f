"""Layers over ragged input: one value for each row of a batch."""

from __future__ import annotations

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import offsets_of
from fleet_programs.operators.networks.sequence_pool import EXTREMES, KINDS
from fleet_programs.program.variable import Variable

__all__ = [
    "sequence_first_step",
    "sequence_last_step",
    "sequence_pool",
]


def sequence_pool(input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Variable:
    """One value for each row: its sum, average, sqrt (sum / sqrt(length)), max, min, first or last.

    An empty row gives `pad_value`. Training or not is all the same, whatever `is_test` says.
    """
    layer = LayerBuilder("sequence_pool")
    kind = str(pool_type).upper()
    if kind not in KINDS:
        raise layer.error(f"pool_type must be one of {', '.join(KINDS).lower()}, got {pool_type!r}")
    offsets = offsets_of(layer, input)
    out = layer.temporary(input.dtype)
    index = layer.temporary("int64", stop_gradient=True) if kind in EXTREMES else None
    count = layer.temporary(input.dtype, stop_gradient=True)
    layer.op(
        "sequence_pool",
        {"X": input, "Offsets": offsets},
        {"Out": out, "MaxIndex": index, "Count": count},
        {"pooltype": kind, "is_test": bool(is_test), "pad_value": float(pad_value)},
    )
    return out


def sequence_first_step(input: Variable) -> Variable:
    """The first value of each row, zeros for an empty one."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """The last value of each row, zeros for an empty one."""
    return sequence_pool(input, "last")
