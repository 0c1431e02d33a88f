"""Curves of what a script measures."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.tools.plotting": "Ploter"})
