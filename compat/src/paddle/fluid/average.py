"""Averages that a script keeps."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.programs.measures.average": "WeightedAverage"})
