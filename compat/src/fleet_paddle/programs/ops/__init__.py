"""Operators that only scripts of PaddlePaddle need: one file for each family; importing this package defines them."""

from __future__ import annotations

from fleet.static import ops
from fleet.static.registry import defined
from fleet_paddle.programs.ops import (
    chunks,
    crf,
    gates,
    gru,
    hierarchical,
    lstm,
    packing,
    recurrent_units,
    sampled,
)

__all__ = [
    "OWN",
    "chunks",
    "crf",
    "gates",
    "gru",
    "hierarchical",
    "lstm",
    "packing",
    "recurrent_units",
    "sampled",
]

_OF_FLEET = {one.type for one in ops.OWN}
OWN = [one for one in defined() if one.type not in _OF_FLEET]
"""The definitions of this package."""
