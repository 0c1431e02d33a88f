"""Layers made from the definitions of operators; `table.pyi` beside this file has their signatures."""

from __future__ import annotations

from fleet_programs.layers.building.from_rows import layers
from fleet_programs.operators import OWN

_made = layers(OWN, __name__)
__all__ = sorted(_made)
globals().update(_made)
