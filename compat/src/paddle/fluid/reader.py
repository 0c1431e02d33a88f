"""Readers that run beside the program."""

from paddle._alias import alias

alias(__name__, {"fleet.static": "DataLoader EOFException PyReader"})
