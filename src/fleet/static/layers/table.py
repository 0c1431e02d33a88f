"""Layers made from the definitions of operators; `table.pyi` beside this file has their signatures."""

from __future__ import annotations

from fleet.static.layers.from_rows import layers
from fleet.static.ops import OWN

_made = layers(OWN, __name__)
__all__ = sorted(_made)
globals().update(_made)
