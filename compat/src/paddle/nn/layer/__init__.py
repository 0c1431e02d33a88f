"""Layers, under the module that they are written in."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.nn": "*"},
    parts="activation common container conv distance layers loss norm pooling rnn transformer",
)
