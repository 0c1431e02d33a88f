"""Roles and strategy."""

from paddle._alias import alias

alias(__name__, parts="distributed_strategy fleet_base role_maker util_factory")
