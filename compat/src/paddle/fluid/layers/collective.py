"""Layers that trainers take part in together."""

from paddle._alias import alias

alias(
    __name__,
    renamed={
        "_c_allgather": "fleet_paddle.programs.collectives:all_gather",
        "_c_allreduce": "fleet_paddle.programs.collectives:all_reduce",
        "_c_broadcast": "fleet_paddle.programs.collectives:broadcast",
    },
)
