"""`paddle.dataset.imdb`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dataset.imdb": "*"})
