"""What brings gradients to servers and parameters back."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.jobs.communicator": "AsyncMode Communicator"},
    refused={
        "LargeScaleKV": "rows are on servers: fleet.save_persistables(exe, dirname) writes them and "
        "fleet.init_server(dirname) reads them",
    },
)
