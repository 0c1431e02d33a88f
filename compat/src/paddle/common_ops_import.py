"""What modules with layers of their own begin with."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.attr": "ParamAttr",
        "fleet_paddle.fluid.layers": "fill_constant scale",
        "fleet_paddle.programs.device": "device_guard",
        "fleet_paddle.tools.checks": "check_dtype check_type check_variable_and_dtype dygraph_only",
        "fleet_programs": "Variable default_main_program",
    },
    renamed={
        "LayerHelper": "paddle.fluid.layer_helper:LayerHelper",
        "convert_dtype": "fleet_programs.definition.dtypes:canonical",
        "convert_np_dtype_to_dtype_": "fleet_programs.definition.dtypes:canonical",
        "core": "paddle.fluid.core",
        "in_dygraph_mode": "fleet_paddle.mode:in_dygraph_mode",
        "np": "numpy",
        "utils": "paddle.fluid.layers.utils",
        "warnings": "warnings",
    },
)
