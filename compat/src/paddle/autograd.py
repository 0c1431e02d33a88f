"""Gradients of several tensors, and functions with a backward of their own."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative.pylayer": "*"})
