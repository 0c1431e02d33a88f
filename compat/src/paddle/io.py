"""Batches of datasets."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.batches.io": "*"})
