"""The object behind the functions of `paddle.distributed.fleet`."""

from paddle._alias import alias

alias(__name__, {"fleet.api": "Fleet"})
