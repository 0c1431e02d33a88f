"""First values of parameters."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.nn.initializer": "*", "fleet_paddle.imperative.nn.shaped_initializer": "*"},
    renamed={"calculate_gain": "torch.nn.init:calculate_gain"},
)
