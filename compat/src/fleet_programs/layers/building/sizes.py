"""Shapes with sizes that are variables, such as `layers.shape(x)[0]`, taken apart for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable


def shape_and_sizes(
    layer: LayerBuilder, shape: Sequence[int | Variable] | Variable
) -> tuple[dict[str, list[Variable]], dict[str, Any]]:
    """(inputs, attributes) that say a shape: the variables in it, and -1 in their places.

    A whole shape may be one variable of a known number of elements.
    """
    if isinstance(shape, Variable):
        if shape.ndim != 1 or shape.shape[0] < 1:
            raise layer.error(f"shape {shape.name!r} must have one known size, got shape {list(shape.shape)}")
        return {"Sizes": [shape]}, {"shape": [-1] * shape.shape[0]}
    inputs = [one for one in shape if isinstance(one, Variable)]
    sizes = [-1 if isinstance(one, Variable) else int(one) for one in shape]
    if sizes.count(-1) != len(inputs):
        raise layer.error(f"shape must have no -1, got {sizes}; use layers.shape(x)[0] for the size of a batch")
    return ({"Sizes": inputs} if inputs else {}), {"shape": sizes}
