"""Roles and the base of fleets."""

from paddle._alias import alias

alias(__name__, parts="fleet_base role_maker")
