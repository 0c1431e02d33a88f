"""Tools."""

from paddle._alias import alias

alias(
    __name__,
    refused={
        "HDFSClient": "mount the file system, or give a dataset a pipe command that reads it",
        "LocalFS": "use pathlib",
        "recompute": "train a torch module with strategy.recompute = True",
    },
)
