"""Schedules of the learning rate, moved on by step()."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative.optimizer.lr": "*"})
