"""Layers that had not settled yet."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.static.layers": "shuffle_batch",
        "fleet_paddle.programs.nn": "sparse_embedding",
        "fleet_paddle.programs.layers.stacked": "basic_gru basic_lstm",
    },
)
