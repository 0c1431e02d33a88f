"""How workers and servers come together."""

from paddle._alias import alias

alias(__name__, {"fleet.either.strategy": "StrategyFactory"})
