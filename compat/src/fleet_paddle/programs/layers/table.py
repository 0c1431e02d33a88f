"""Layers made from the definitions of `programs.ops`; `table.pyi` beside this file has their signatures."""

from __future__ import annotations

from fleet_paddle.programs.ops import OWN
from fleet_programs.layers.building.from_rows import layers

_made = layers(OWN, __name__)
__all__ = sorted(_made)
globals().update(_made)
