"""Networks that classify images."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.vision.models": "*"})
