"""Workers that train copies of one network."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative": "DataParallel ParallelEnv get_rank get_world_size init_parallel_env"},
)
