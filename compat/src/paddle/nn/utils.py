"""Parameters of a layer in another form."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative.nn.norms.utils": "*"})
