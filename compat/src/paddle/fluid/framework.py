"""Programs and what they are made of."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs": "Block Operator Parameter Program Variable cpu_places cuda_places default_main_program "
        "default_startup_program name_scope program_guard",
        "fleet_paddle.tools.require": "require_version",
        "fleet_paddle.imperative": "is_compiled_with_cuda",
        "fleet_paddle.programs.device": "device_guard",
        "fleet_paddle.tools.checks": "dygraph_only",
    },
    renamed={
        "ParamBase": "fleet_paddle.imperative.tensor:Parameter",
        "_get_var": "fleet_paddle.programs.variables.finding:variable_named",
        "convert_np_dtype_to_dtype_": "fleet_programs.definition.dtypes:canonical",
        "core": "paddle.fluid.core",
        "unique_name": "paddle.fluid.unique_name",
        "in_dygraph_mode": "fleet_paddle.mode:in_dygraph_mode",
    },
)
