"""Rows of different lengths."""

from paddle._alias import alias

alias(__name__, {"fleet_programs": "create_lod_tensor create_random_int_lodtensor"})
