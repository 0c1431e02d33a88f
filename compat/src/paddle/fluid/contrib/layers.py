"""Layers that had not settled yet."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.layers": "shuffle_batch",
        "fleet_paddle.imperative": "index_sample",
        "fleet_paddle.programs.networks.stacked": "basic_gru basic_lstm",
        "fleet_paddle.programs.networks.contrib_layers": "*",
        "fleet_paddle.programs.nn": "sparse_embedding",
        "fleet_paddle.programs.networks.tree": "tdm_child tdm_sampler",
    },
)
