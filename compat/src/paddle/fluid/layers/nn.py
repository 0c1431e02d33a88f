"""Layers: every one is here."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.fluid.layers": "*", "fleet_paddle.fluid.newer": "*"})
