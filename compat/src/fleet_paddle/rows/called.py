"""A call of a function with weights of its own, such as `linear(x, weight)`."""

from __future__ import annotations

from fleet.static import names
from fleet.static.layers.helper import Layer


def called(kind: str, name: str | None = None) -> Layer:
    """What adds its operators. Results are named apart from layers: a parameter of the next `Linear` keeps its name."""
    return Layer(kind, name or names.generate(f"{kind}_call"))
