"""Samples to feeds."""

from paddle._alias import alias

alias(__name__, {"fleet.static": "DataFeeder"})
