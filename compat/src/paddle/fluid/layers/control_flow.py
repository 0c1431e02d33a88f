"""Control flow: what runs in a step depends on its values; comparisons, counts, arrays."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "DynamicRNN IfElse Print StaticRNN Switch While array_length array_read "
        "array_write case cond create_array equal greater_equal greater_than increment is_empty less_equal less_than "
        "lod_rank_table max_sequence_len not_equal reorder_lod_tensor_by_rank shrink_memory switch_case while_loop",
    },
)
