"""Samples to feeds."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.tools.checks": "check_dtype check_type check_variable_and_dtype",
        "fleet_programs": "DataFeeder",
    },
    renamed={"convert_dtype": "fleet_programs.definition.dtypes:canonical"},
)
