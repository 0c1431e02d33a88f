"""Save and load, readers of data."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.static.io": "*",
        "fleet_paddle.reader": "batch buffered cache chain compose firstn map_readers multiprocess_reader shuffle "
        "xmap_readers",
    },
    renamed={"DataLoader": "fleet_paddle.io:DataLoader"},
    refused={
        "get_parameter_value": "use fluid.global_scope().find_var(name).get_tensor()",
    },
)
