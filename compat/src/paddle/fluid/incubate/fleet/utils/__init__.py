"""Tools."""

from paddle._alias import alias

alias(
    __name__,
    refused={
        "fleet_util": "use fleet.util",
        "hdfs": "mount the file system, or give a dataset a pipe command that reads it",
        "utils": "print a program: it is text",
    },
)
