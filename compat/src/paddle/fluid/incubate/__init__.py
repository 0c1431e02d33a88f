"""Distributed training of version 1.x."""

from paddle._alias import alias

alias(__name__, parts="data_generator fleet")
