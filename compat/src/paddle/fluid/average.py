"""Averages that a script keeps."""

from paddle._alias import alias

alias(__name__, {"fleet.static.average": "WeightedAverage"})
