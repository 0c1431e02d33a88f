"""Layers over ragged input."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "sequence_concat sequence_conv sequence_enumerate sequence_erase "
        "sequence_expand sequence_expand_as sequence_first_step sequence_last_step sequence_mask sequence_pad "
        "sequence_pool sequence_reshape sequence_reverse sequence_scatter sequence_slice sequence_softmax "
        "sequence_unpad",
    },
)
