"""`paddle.dataset.cifar`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dataset.cifar": "*"})
