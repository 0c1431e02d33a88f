"""A call of a function with weights of its own, such as `linear(x, weight)`."""

from __future__ import annotations

from fleet_programs.expressions import names
from fleet_programs.layers.building.helper import LayerBuilder


def function_builder(kind: str, name: str | None = None) -> LayerBuilder:
    """What adds its operators. Results are named apart from layers: a parameter of the next `Linear` keeps its name."""
    return LayerBuilder(kind, name or names.generate(f"{kind}_call"))
