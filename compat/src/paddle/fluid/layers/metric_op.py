"""Measures that a program computes."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.fluid.layers": "accuracy auc"})
