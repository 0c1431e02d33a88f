"""Save and load, readers of data."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.static.io": "*",
        "fleet.data.reader": "batch buffered cache chain compose firstn map_readers multiprocess_reader shuffle "
        "xmap_readers",
    },
    refused={
        "get_parameter_value": "use fluid.global_scope().find_var(name).get_tensor()",
        "load_program_state": "use fluid.io.load_vars, or fluid.load for what fluid.save wrote",
        "set_program_state": "use fluid.global_scope().find_var(name).get_tensor().set(array)",
    },
)
