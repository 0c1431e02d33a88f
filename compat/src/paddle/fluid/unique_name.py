"""Names of variables."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.static.names": "generate guard"},
    refused={"switch": "use guard: with unique_name.guard():"},
)
