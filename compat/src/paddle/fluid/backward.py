"""Gradients as operators."""

from paddle._alias import alias

alias(__name__, {"fleet_programs.backward.backward": "append_backward gradients"})
