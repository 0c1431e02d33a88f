"""Averages of weights, under the module that they are written in."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.incubate.averages": "LookAhead ModelAverage"})
