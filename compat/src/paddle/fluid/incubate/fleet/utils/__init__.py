"""Tools."""

from paddle._alias import alias

alias(
    __name__,
    parts="fs hdfs",
    refused={
        "fleet_util": "use fleet.util",
        "utils": "print a program: it is text",
    },
)
