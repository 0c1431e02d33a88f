"""`paddle.dataset.flowers`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dataset.flowers": "*"})
