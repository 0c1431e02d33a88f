"""Layers that hold others."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dygraph": "LayerList ParameterList Sequential"})
