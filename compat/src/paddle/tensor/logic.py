"""Functions of tensors: every one is here."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative.functions.table": "*", "fleet_paddle.imperative.creation": "*"})
