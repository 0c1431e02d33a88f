"""What workers tell each other."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.imperative.exchange": "Group ReduceOp all_gather all_reduce alltoall barrier broadcast get_group "
        "new_group recv reduce scatter send wait",
    },
)
