"""Layers over tensors, and over variables after paddle.enable_static()."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.nn": "*", "fleet_paddle.fluid.decoding": "BeamSearchDecoder dynamic_decode"},
    parts="decode functional initializer layer loss utils",
)
