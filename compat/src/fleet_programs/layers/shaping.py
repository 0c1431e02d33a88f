"""Layers that take variables apart."""

from __future__ import annotations

from collections.abc import Sequence

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["split", "unstack"]


def split(
    input: Variable, num_or_sections: int | Sequence[int], dim: int = -1, name: str | None = None
) -> list[Variable]:
    """Equal parts along `dim`, so many, or parts of given sizes, one of which may be -1 for the rest."""
    layer = LayerBuilder("split", name)
    input = layer.variable(input)
    sections = [] if isinstance(num_or_sections, int) else [int(size) for size in num_or_sections]
    num = num_or_sections if isinstance(num_or_sections, int) else 0
    if num < 1 and not sections:
        raise layer.error(f"num_or_sections must be a number of parts or their sizes, got {num_or_sections!r}")
    outs = [layer.temporary(input.dtype) for _ in range(num or len(sections))]
    layer.op("split", {"X": input}, {"Out": outs}, {"axis": int(dim), "num": num, "sections": sections})
    return outs


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The parts of a variable along an axis, which goes."""
    layer = LayerBuilder("unstack")
    x = layer.variable(x, "x")
    if not -len(x.shape) <= axis < len(x.shape):
        raise layer.error(f"axis must be between {-len(x.shape)} and {len(x.shape) - 1}, got {axis}")
    count = x.shape[axis] if num is None else num
    if count < 1:
        raise layer.error(f"axis {axis} of {x.name!r} has no known size; unstack along another one")
    outs = [layer.temporary(x.dtype) for _ in range(count)]
    layer.op("unstack", {"X": x}, {"Y": outs}, {"axis": int(axis), "num": int(count)})
    return outs
