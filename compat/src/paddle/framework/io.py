"""Objects as files."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative": "load save"})
