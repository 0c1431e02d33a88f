"""Save and load, readers of data."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.io": "*",
        "fleet_paddle.batches.reader": "batch buffered cache chain compose firstn map_readers multiprocess_reader "
        "shuffle xmap_readers",
    },
    renamed={
        "DataLoader": "fleet_paddle.batches.io:DataLoader",
        "PyReader": "fleet_paddle.batches.program_loaders:PyReader",
        "load": "fleet_paddle.foreign.loading:load",
        "load_inference_model": "fleet_paddle.foreign.loading:load_inference_model",
        "load_params": "fleet_paddle.foreign.loading:load_params",
        "load_persistables": "fleet_paddle.foreign.loading:load_persistables",
        "load_program_state": "fleet_paddle.foreign.loading:load_program_state",
        "load_vars": "fleet_paddle.foreign.loading:load_vars",
    },
    refused={
        "get_parameter_value": "use fluid.global_scope().find_var(name).get_tensor()",
    },
)
