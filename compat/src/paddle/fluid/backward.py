"""Gradients as operators."""

from paddle._alias import alias

alias(__name__, {"fleet.static.backward": "append_backward gradients"})
