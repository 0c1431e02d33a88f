"""Cells of recurrent networks in imperative mode."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dygraph": "GRUCell LSTMCell"})
