"""Lists, tuples and dicts inside each other."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.nested": "assert_same_structure flatten is_sequence map_structure pack_sequence_as"},
)
