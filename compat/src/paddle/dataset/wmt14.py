"""`paddle.dataset.wmt14`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dataset.wmt14": "*"})
