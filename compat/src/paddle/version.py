"""The version whose names these are."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.tools.version": "*"})
