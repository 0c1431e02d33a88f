"""Samples to feeds."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.static": "DataFeeder"},
    renamed={"convert_dtype": "fleet.static.dtypes:canonical"},
)
