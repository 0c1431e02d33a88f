"""Names of variables."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.static.names": "generate guard switch"},
    renamed={"UniqueNameGenerator": "fleet.static.names:Names", "generator": "fleet.static.names:_names"},
    live="generator",
)
