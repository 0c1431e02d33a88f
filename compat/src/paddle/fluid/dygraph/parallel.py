"""Several workers in imperative mode."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.dygraph": "prepare_context", "fleet_paddle.imperative": "DataParallel ParallelEnv"},
    renamed={"Env": "fleet_paddle.imperative:ParallelEnv"},
    refused={"ParallelStrategy": "prepare_context() gives what DataParallel takes; the launcher says who is who"},
)
