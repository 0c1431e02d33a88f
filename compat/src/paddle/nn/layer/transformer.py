"""Layers: every one is here."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.nn": "*"},
    renamed={"_convert_param_attr_to_list": "fleet_paddle.imperative.nn.sequences.transformer:attrs_of_parts"},
)
