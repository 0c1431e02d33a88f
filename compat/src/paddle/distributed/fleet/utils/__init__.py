"""Tools."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.fs": "HDFSClient LocalFS",
        "fleet_paddle.jobs.inference_job": "DistributedInfer",
        "fleet_paddle.imperative.recompute": "recompute",
    },
    parts="fs ps_util",
)
