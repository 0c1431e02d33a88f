"""Datasets of text."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.text": "*"})
