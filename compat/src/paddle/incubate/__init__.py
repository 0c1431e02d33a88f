"""What was tried before it became part of the rest: averages of weights, segments, graphs."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.incubate.averages": "LookAhead ModelAverage",
        "fleet_paddle.incubate.graphs": "graph_send_recv segment_max segment_mean segment_min segment_sum "
        "softmax_mask_fuse softmax_mask_fuse_upper_triangle",
    },
    parts="optimizer",
)
