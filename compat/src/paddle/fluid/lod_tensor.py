"""Rows of different lengths."""

from paddle._alias import alias

alias(__name__, {"fleet.static": "create_lod_tensor create_random_int_lodtensor"})
