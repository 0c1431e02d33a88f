"""Distributed training of version 1.x."""

from paddle._alias import alias

alias(__name__, parts="base collective parameter_server utils")
