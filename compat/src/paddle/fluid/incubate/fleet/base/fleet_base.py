"""The object behind every `fleet`."""

from paddle._alias import alias

alias(__name__, {"fleet.api": "Fleet"})
