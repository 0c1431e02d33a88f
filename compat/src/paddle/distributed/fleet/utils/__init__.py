"""Tools."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.data.fs": "HDFSClient LocalFS"},
    parts="fs",
    refused={
        "ps_util": "fleet.save_inference_model brings rows of tables home; static.load_inference_model loads that",
        "recompute": "train a torch module with strategy.recompute = True",
    },
)
