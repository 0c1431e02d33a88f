"""Comparisons and counts; what runs is decided in Python."""

from paddle._alias import alias
from paddle._loops import LOOPS

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "Print equal greater_equal greater_than increment is_empty less_equal less_than "
        "not_equal",
    },
    refused=LOOPS,
)
