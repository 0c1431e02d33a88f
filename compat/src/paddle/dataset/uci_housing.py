"""`paddle.dataset.uci_housing`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dataset.uci_housing": "*"})
