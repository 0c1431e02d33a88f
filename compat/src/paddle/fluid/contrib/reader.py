"""Readers that had not settled yet."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.jobs.batch_reader": "distributed_batch_reader"})
