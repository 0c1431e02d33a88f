"""Operators that only scripts of PaddlePaddle need: one file for each family; importing this package defines them."""

from __future__ import annotations

from fleet.static import ops
from fleet.static.registry import defined
from fleet_paddle.programs.ops import (
    beam_search,
    beams,
    belonging,
    chunks,
    clicks,
    crf,
    data_norm,
    drawing,
    gates,
    gru,
    hierarchical,
    image,
    lstm,
    matrices,
    neighbours,
    ordering,
    packing,
    pairing,
    pixels,
    probability_loss,
    py_func,
    ranked,
    recurrent_units,
    rnn,
    sampled,
    sequence,
    sequence_rows,
    sequence_shape,
    special_loss,
    spectral,
    xxhash,
)

__all__ = [
    "OWN",
    "beam_search",
    "beams",
    "belonging",
    "chunks",
    "clicks",
    "crf",
    "data_norm",
    "drawing",
    "gates",
    "gru",
    "hierarchical",
    "image",
    "lstm",
    "matrices",
    "neighbours",
    "ordering",
    "packing",
    "pairing",
    "pixels",
    "probability_loss",
    "py_func",
    "ranked",
    "recurrent_units",
    "rnn",
    "sampled",
    "sequence",
    "sequence_rows",
    "sequence_shape",
    "special_loss",
    "spectral",
    "xxhash",
]

_OF_FLEET = {one.type for one in ops.OWN}
OWN = [one for one in defined() if one.type not in _OF_FLEET]
"""The definitions of this package."""
