"""`paddle.dataset.conll05`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dataset.conll05": "*"})
