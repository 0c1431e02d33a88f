"""The ways in which workers and servers keep step."""

from paddle._alias import alias

alias(__name__, renamed={"DistributedMode": "fleet.strategy:Mode", "PSMode": "fleet.strategy:Mode"})
