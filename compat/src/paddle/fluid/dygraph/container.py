"""Layers that hold others."""

from paddle._alias import alias

alias(__name__, {"fleet.either.dygraph": "LayerList ParameterList Sequential"})
