"""Mixed precision in a loop of the script's own."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.amp": "*"},
    refused={"decorate": "convert the layer with layer.to(dtype='bfloat16'), or use strategy.amp"},
)
