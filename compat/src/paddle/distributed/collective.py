"""What workers tell each other."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative": "ReduceOp all_gather all_reduce barrier broadcast reduce"})
