"""Several workers in imperative mode."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.either.dygraph": "prepare_context", "fleet.imperative": "DataParallel ParallelEnv"},
    renamed={"Env": "fleet.imperative:ParallelEnv"},
    refused={"ParallelStrategy": "prepare_context() gives what DataParallel takes; the launcher says who is who"},
)
