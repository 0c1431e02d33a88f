"""Layers over tensors, and over variables after paddle.enable_static()."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.nn": "*"},
    parts="functional initializer",
    refused={
        "BeamSearchDecoder": "write the loop over a cell, such as paddle.nn.LSTMCell, and paddle.topk",
        "dynamic_decode": "write the loop over a cell, such as paddle.nn.LSTMCell, and paddle.topk",
        "utils": "layers are torch modules: torch.nn.utils takes them",
    },
)
