"""Text and numbers that are the same in every Python."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.tools.plain_text": "*"})
