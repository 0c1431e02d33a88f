"""First values of parameters."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.nn.base.initializer": "*", "fleet_paddle.imperative.nn.base.shaped_initializer": "*"},
    renamed={"calculate_gain": "torch.nn.init:calculate_gain"},
)
