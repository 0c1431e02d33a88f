"""Names of variables."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_programs.expressions.names": "generate guard switch"},
    renamed={
        "UniqueNameGenerator": "fleet_programs.expressions.names:Names",
        "generator": "fleet_programs.expressions.names:_names",
    },
    live="generator",
)
