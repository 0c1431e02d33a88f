"""First values of parameters."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative.nn.initializer": "*"})
