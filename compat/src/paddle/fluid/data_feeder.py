"""Samples to feeds."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_programs": "DataFeeder"},
    renamed={"convert_dtype": "fleet_programs.definition.dtypes:canonical"},
)
