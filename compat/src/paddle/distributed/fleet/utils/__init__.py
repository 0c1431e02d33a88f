"""Tools."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.data.fs": "HDFSClient LocalFS", "fleet_paddle.inference_job": "DistributedInfer"},
    parts="fs ps_util",
    refused={
        "recompute": "train a torch module with strategy.recompute = True",
    },
)
