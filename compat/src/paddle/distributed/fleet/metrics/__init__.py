"""Measures over all workers."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.jobs.metrics": "*"}, parts="metric")
