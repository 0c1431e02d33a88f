"""The type of new floats."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative": "get_default_dtype set_default_dtype"})
